"""Bots of OpenSpiel, and policies of environments, as players on a board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import CHANCE, END, Array, Observations, UserError
from overtrick.evaluation.board.acting_player import checked_answer
from overtrick.evaluation.board.board_setting import ActingPlayer, BoardSetting, Decision
from overtrick.evaluation.board.bucket_players import FixedPolicyPlayer
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.policies.memoryless import MemorylessPolicy

NewBot = Callable[[int, int], Any]
"""Function that makes a pyspiel.Bot from its seat and a seed."""

EnvironmentPolicy = Callable[[Any, Any], Any]
"""Function of an observation (F,) and an action mask (A,), as the environments of this project give
them. It returns an action, or the probabilities (A,) of all actions."""


class OpenSpielBotPlayer:
    """Player that asks one bot of OpenSpiel for each seat.

    A bot is given a state in which the cards that it has not seen are some that agree with the
    game so far. A bot that provides no policy is asked for actions. Bots are not told the ends of
    games, so they do not adapt.
    """

    def __init__(self, setting: BoardSetting, states: Sequence[Any], bots: Sequence[Any]) -> None:
        """`states`: a pyspiel.State for each information set; see `states_of`."""
        self.setting, self.states, self.bots = setting, states, bots

    def act(self, decision: Decision) -> int | Sequence[float]:
        """Return the bot's action or, if it provides a policy, the probabilities of all actions."""
        bot, state = self.bots[decision.seat], self.states[decision.infoset].clone()
        if not bot.provides_policy():
            bot.restart_at(state)
            return int(bot.step(state))
        row = [0.0] * len(self.setting.game.action_names)
        for action, probability in bot.get_policy(state):
            row[action] = probability
        return row


def openspiel_player(
    game: Any, new_bot: NewBot
) -> Callable[[BoardSetting | BucketSetting, Generator], ActingPlayer]:
    """Return a function that makes a board's player from bots of OpenSpiel.

    `game`: the pyspiel.Game of the bots. It must have the rules, and the numbers of actions, of the
    board's game; its cards may have suits that this project does not distinguish.
    """

    states: dict[BoardSetting, list[Any]] = {}

    def openspiel_bot(setting: BoardSetting | BucketSetting, rng: Generator) -> ActingPlayer:
        """Return the player of one match. Raises UserError if the games differ."""
        if isinstance(setting, BucketSetting):
            raise UserError(
                f"bots of OpenSpiel cannot play on the board of {setting.game.name}, which is too "
                "large for a tree"
            )
        bots = [new_bot(seat, int(rng.integers(2**31))) for seat in range(2)]
        if setting not in states:
            states[setting] = states_of(setting, game)
        return OpenSpielBotPlayer(setting, states[setting], bots)

    return openspiel_bot


class EnvironmentPolicyAnswers(MemorylessPolicy):
    """Policy of the Gymnasium and PettingZoo environments, for a game too large for a tree."""

    def __init__(self, setting: BucketSetting, policy: EnvironmentPolicy) -> None:
        self.game, self.policy = setting.game, policy

    def probs(self, observations: Observations) -> Array:
        """Return the probabilities (R, A), 1 for an action that the policy answers with.

        Raises UserError if an answer is neither a legal action nor a row of probabilities.
        """
        assert observations.legal is not None
        features = self.game.features(observations).astype(np.float32)
        rows = zip(features, observations.legal, strict=True)
        return np.array([
            checked_answer(
                self.policy(observation, legal.astype(np.int8)),
                np.flatnonzero(legal), self.game.action_names, observation,
            )[0]
            for observation, legal in rows
        ])  # fmt: skip


class EnvironmentPolicyPlayer:
    """Player that follows a policy of this project's Gymnasium and PettingZoo environments."""

    def __init__(self, setting: BoardSetting, policy: EnvironmentPolicy) -> None:
        self.features = setting.game.features(setting.tree.observations).astype(np.float32)
        self.masks = setting.tree.legal.astype(np.int8)
        self.policy = policy

    def act(self, decision: Decision) -> int | Sequence[float]:
        """Return the policy's answer."""
        row = decision.infoset
        answer: int | Sequence[float] = self.policy(self.features[row], self.masks[row])
        return answer


def environment_player(
    policy: EnvironmentPolicy,
) -> Callable[[BoardSetting | BucketSetting, Generator], ActingPlayer | FixedPolicyPlayer]:
    """Return a function that makes a board's player from a policy for our environments.

    `policy`: is called with the observation (F,) and the action mask (A,) of the environments of
    the board's game. It returns an action, or the probabilities (A,) of all actions. In a game that
    is too large for a tree it counts as a fixed policy, which is evaluated once.
    """

    def environment_policy(
        setting: BoardSetting | BucketSetting, rng: Generator
    ) -> ActingPlayer | FixedPolicyPlayer:
        """Return the player of one match."""
        if isinstance(setting, BucketSetting):
            return FixedPolicyPlayer(EnvironmentPolicyAnswers(setting, policy))
        return EnvironmentPolicyPlayer(setting, policy)

    return environment_policy


def states_of(setting: BoardSetting, game: Any) -> list[Any]:
    """Return a pyspiel.State for each information set of a board's game.

    Both trees are walked together. One chance outcome of the board's game may be several outcomes
    in OpenSpiel (suits); it is matched to the first of them, by cumulative probability. Raises
    UserError if the games differ in seats, actions or, up to a constant factor, payoffs.
    """
    tree, found = setting.tree, dict[int, Any]()
    here, there = list[float](), list[float]()  # payoffs of seat 0 at the ends
    left = [(0, game.new_initial_state())]
    while left:
        node, state = left.pop()
        seat, first, count = (int(x[node]) for x in (tree.seat, tree.first, tree.children))
        if seat == END or state.is_terminal():
            _check_same(seat == END and state.is_terminal(), game, "ends after other actions")
            here.append(float(setting.payoffs[node, 0]))
            there.append(state.returns()[0])
            continue
        _check_same((seat == CHANCE) == state.is_chance_node(), game, "has chance elsewhere")
        if seat == CHANCE:
            actions, odds = zip(*state.chance_outcomes(), strict=True)
            odds_here = tree.chance[first : first + count]
            before = np.cumsum(odds_here) - odds_here
            places = np.searchsorted(np.cumsum(odds), before + 1e-9)
            taken = [actions[place] for place in places]
        else:
            legal = np.flatnonzero(tree.legal[tree.infoset[node]]).tolist()
            same = state.current_player() == seat and sorted(state.legal_actions()) == legal
            _check_same(same, game, f"has other actions after {state.history()}")
            found.setdefault(int(tree.infoset[node]), state)
            taken = legal
        left += [(first + k, state.child(action)) for k, action in enumerate(taken)]
    scale = max(map(abs, there)) / max(map(abs, here))
    _check_same(np.allclose(np.array(here) * scale, there), game, "has other payoffs")
    return [found[number] for number in range(tree.infosets)]


def _check_same(same: bool, game: Any, difference: str) -> None:
    """Raise UserError unless a game of OpenSpiel agrees with that of a board."""
    if not same:
        raise UserError(
            f"{game} {difference}: use the OpenSpiel game of the board's game, which "
            "overtrick.environments.openspiel_game makes"
        )
