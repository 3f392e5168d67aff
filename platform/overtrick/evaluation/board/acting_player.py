"""Acting players on a board: their strategies and games, by questions about single decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import CHANCE, Array, UserError
from overtrick.evaluation.board.board_setting import (
    ActingPlayer,
    BoardSetting,
    Decision,
    FinishedGame,
    ObservingPlayer,
)

ACTION_SAMPLES = 100
"""Questions at each information set of a checkpoint to a player that answers with actions. The
frequencies of its answers replace their probabilities, which leaves the expected payoff the same.
"""


class ActingPlayerAdapter:
    """Player that gives strategies, made from a player that is asked for one decision at a time."""

    def __init__(self, setting: BoardSetting, player: ActingPlayer) -> None:
        self.setting, self.player = setting, player
        self.observed = 0  # games

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the player's strategy (N, A) after all games so far.

        Raises UserError if an answer is neither a legal action nor a row of probabilities.
        """
        self._observe(games)
        return np.stack([self._strategy_at(each) for each in self.setting.decisions])

    def play(self, games: Sequence[FinishedGame], seat: int, other: Array, draws: Array) -> int:
        """Play one game with the player in `seat`; return the terminal node that it reached.

        `games`: the finished games of the match. `other` (N, A): the opponent's strategy. `draws`:
        uniform random numbers from 0 to 1, one for each action and chance event. Raises UserError
        as `strategy` does.
        """
        self._observe(games)
        tree, node, depth = self.setting.tree, 0, 0
        while tree.children[node] > 0:
            first, infoset = tree.first[node], tree.infoset[node]
            if tree.seat[node] == CHANCE:
                odds = tree.chance[first : first + tree.children[node]]
            elif tree.seat[node] == seat:
                decision = self.setting.decisions[infoset]._replace(playing=True)
                odds = self._answer(decision)[0][tree.legal[infoset]]
            else:
                odds = other[infoset, tree.legal[infoset]]
            chosen = np.searchsorted(odds.cumsum(), draws[depth], side="right")
            node = int(first + min(chosen, np.flatnonzero(odds)[-1]))
            depth += 1
        return node

    def _observe(self, games: Sequence[FinishedGame]) -> None:
        """Tell the player the games that it has not been told yet."""
        if isinstance(self.player, ObservingPlayer):
            for game in games[self.observed :]:
                self.player.observe(game)
        self.observed = len(games)

    def _strategy_at(self, decision: Decision) -> Array:
        """Return the player's probabilities (A,) at a decision."""
        row, is_action = self._answer(decision)
        if not is_action:
            return row
        more = [self._answer(decision)[0] for _ in range(ACTION_SAMPLES - 1)]
        return np.mean([row, *more], axis=0)

    def _answer(self, decision: Decision) -> tuple[Array, bool]:
        """Return the player's probabilities (A,), and whether it has answered with an action."""
        names = self.setting.game.action_names
        return checked_answer(self.player.act(decision), decision.legal, names, decision)


def checked_answer(
    given: object, legal: Sequence[int] | Array, names: Sequence[str], question: object
) -> tuple[Array, bool]:
    """Return a player's probabilities (A,), and whether it has answered with an action.

    `given`: its answer. `legal`: the legal actions. `names`: of the A actions of the game.
    `question`: as the error message shows it. Raises UserError if the answer is neither a legal
    action nor probabilities of the legal actions.
    """
    try:
        answer = np.asarray(given)
    except ValueError:  # lists of different lengths
        answer = np.asarray(None)
    mask = np.zeros(len(names), bool)
    mask[list(legal)] = True
    is_action = answer.ndim == 0 and answer.dtype.kind in "iu"
    if is_action and 0 <= answer < len(mask) and mask[int(answer)]:
        return np.eye(len(mask))[int(answer)], True
    if answer.shape == mask.shape and answer.dtype.kind in "fiu":
        row = answer.astype(float)
        if (row >= 0).all() and not row[~mask].any() and abs(row.sum() - 1) < 1e-6:
            return row / row.sum(), False
    raise UserError(
        f"the player's answer {given!r} to {question} is neither a legal action nor "
        f"{len(mask)} probabilities, one for each of {', '.join(names)}, 0 for illegal ones"
    )
