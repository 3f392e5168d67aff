"""Where strategies are judged exactly: on a game's tree, or on public moves over buckets."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from overtrick.config.job_file import GameChoice
from overtrick.core import Array, CompactFeatures, Game, UserError
from overtrick.datasets.card_abstraction_build import load_abstraction
from overtrick.evaluation.game_cache import cached_game
from overtrick.games.poker.holdem.abstract_game import AbstractHoldem
from overtrick.reports import figures
from overtrick.solvers import sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.public_tree import values


class StrategyEvaluator(Protocol):
    """One game and an index of its situations; sigma is (N, A), many of them (M, N, A)."""

    game: Any
    legal: Array  # (N, A) bool
    seat: Array  # (N,) whose row it is

    @property
    def seats(self) -> int: ...
    @property
    def inputs(self) -> Array:
        """(N, F) float64 inputs of a small network. Raises UserError if there are none."""

    def check(self, sigma: Array) -> None:
        """Raise UserError unless sigma (N, A) is a strategy of this game."""

    def expecteds(self, sigmas: Array) -> Array:
        """(M, S) points of each seat."""

    def nash_convs(self, sigmas: Array) -> Array:
        """(M,) points that best responses win over the strategies, summed over seats."""

    def reply_worth(self, sigma: Array, seat: int) -> float:
        """Points of a seat's best response."""

    def worth(self, seat: int) -> float:
        """Points of a seat in equilibrium, if the game has two seats and is zero-sum."""

    def pictures(self, sigma: Array) -> dict[str, Figure]:
        """What a strategy does, drawn."""


class TreeEvaluator:
    """A game whose tree fits in memory."""

    def __init__(self, game: Any, tree: Tree) -> None:
        self.game = game
        self.tree = tree
        self.legal, self.seat, self.seats = tree.legal, tree.observations.seat, tree.seats

    @property
    def inputs(self) -> Array:
        if not isinstance(self.game, CompactFeatures):
            raise UserError(
                f"{self.game.name} has no inputs for a network: set coevolve.genome to direct"
            )
        return self.game.compact_features(self.tree.observations)

    def check(self, sigma: Array) -> None:
        best_response.check_strategy(self.tree, sigma)

    def expecteds(self, sigmas: Array) -> Array:
        return best_response.expected_batch(self.tree, sigmas)

    def nash_convs(self, sigmas: Array) -> Array:
        return best_response.nash_conv_batch(self.tree, sigmas)

    def reply_worth(self, sigma: Array, seat: int) -> float:
        return best_response.best_response(self.tree, sigma, seat)[0]

    @cached_property
    def _equilibrium(self) -> float:
        return sequence_form.equilibrium(self.tree)[0]

    def worth(self, seat: int) -> float:
        return self._equilibrium if seat == 0 else -self._equilibrium

    def pictures(self, sigma: Array) -> dict[str, Figure]:
        tree, game = self.tree, self.game
        if tree.infosets > figures.FEW_SETS or not isinstance(game, Game):
            return {}
        words = [game.describe(seen) for seen in tree.observations.observation]
        chosen = best_response.edge_probability(tree, sigma)
        return {
            "strategy": figures.strategy(sigma, words, game.action_names),
            "tree": figures.game_tree(tree, chosen, game.action_names),
        }


class BucketedEvaluator:
    """Abstract limit hold'em, through the index that the game was made with."""

    seats = 2

    def __init__(self, game: AbstractHoldem) -> None:
        self.game = game
        self.tables = load_abstraction(Path(game.abstraction))
        game.check_file(Path(game.abstraction))
        self.view = values.index_game(*game.bucketed_game(self.tables))
        self.legal, self.seat = self.view.legal, self.view.seat

    @cached_property
    def inputs(self) -> Array:
        return self.game.bucket_features(self.view.buckets)

    def check(self, sigma: Array) -> None:
        values.check_strategy(self.view, sigma)

    def expecteds(self, sigmas: Array) -> Array:
        return values.expected(self.view, sigmas)

    def nash_convs(self, sigmas: Array) -> Array:
        return values.nash_conv(self.view, sigmas)

    def reply_worth(self, sigma: Array, seat: int) -> float:
        return values.best_response(self.view, sigma, seat)[0]

    def worth(self, seat: int) -> float:
        raise UserError(f"{self.game.name}: one seat evolves alone only where the tree is known")

    def pictures(self, sigma: Array) -> dict[str, Figure]:
        drawn = {"buckets": figures.bucket_graph(self.tables.start, self.tables.moves)}
        if self.game.index == "paper":
            rounds = self.game.situations()[:, 0]
            by_round = [
                sigma.reshape(len(rounds), self.view.buckets, -1)[rounds == r].mean(axis=0)
                for r in range(len(self.tables.moves) + 1)
            ]
            drawn["intensity"] = figures.intensity(np.stack(by_round), self.game.action_names)
        return drawn


def closeness(arena: StrategyEvaluator, sigma: Array) -> dict[str, Any]:
    """How far a strategy is from an equilibrium, and what it is worth to each seat."""
    gap = float(arena.nash_convs(sigma[None])[0])
    return {
        "exploitability": gap / arena.seats,
        "nash_conv": gap,
        "values": arena.expecteds(sigma[None])[0].tolist(),
    }


_arenas: dict[str, StrategyEvaluator] = {}


def arena_of(choice: GameChoice, memory: int | None = None) -> StrategyEvaluator:
    """The arena of a game, kept by each process. Raises UserError.

    memory: bytes that a tree may take; None: what the machine has free.
    """
    key = f"{choice.model_dump_json()} {memory}"
    if key not in _arenas:
        game, tree = cached_game(choice, memory)
        _arenas[key] = BucketedEvaluator(game) if tree is None else TreeEvaluator(game, tree)
    return _arenas[key]
