"""The setting of a match in a game that is too large for a tree, and the players in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from overtrick.core import (
    Array,
    BehaviouralPolicy,
    DealtCards,
    DecodedObservations,
    Game,
    HandAbstraction,
)
from overtrick.evaluation.board.board_setting import UNNUMBERED, FinishedGame
from overtrick.evaluation.board.end_observations import Told, seen_cards
from overtrick.solvers.public_tree.values import IndexedGame


@runtime_checkable
class PolicyPlayer(Protocol):
    """A player that gives a policy for the whole game. A new one is made for each match."""

    def policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy after all games of the match so far.

        The player is evaluated by this policy at a checkpoint, and plays the next game by it.
        """


@runtime_checkable
class ExploringPolicyPlayer(PolicyPlayer, Protocol):
    """A player that plays some games by another policy, to learn more about the opponent."""

    def next_policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy of the next game, after all games of the match so far."""


class CardGame(Game, DealtCards, DecodedObservations, Protocol):
    """A game whose actions are public and whose chance outcomes are cards."""


@dataclass(frozen=True, eq=False)
class BucketSetting:
    """A game, an abstraction of its hands, and the cards that a player is told after each game."""

    game: CardGame
    abstraction: HandAbstraction
    indexed: IndexedGame  # of the abstraction
    told: Told

    def finished_game(
        self, seat: int, deal: Array, actions: tuple[int, ...], payoff: float
    ) -> FinishedGame:
        """Return a seat's observation of a finished game. `deal` (C,): all cards."""
        shown = self.abstraction.dealt_cards(actions)
        cards = tuple(int(c) if k < shown else -1 for k, c in enumerate(deal))
        seen = seen_cards(self.game, seat, self.told, cards, actions)
        return FinishedGame(seat, seen, actions, payoff, UNNUMBERED)
