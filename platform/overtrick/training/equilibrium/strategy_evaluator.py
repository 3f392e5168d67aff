"""Exact evaluation of strategies: on a game tree, or on the public tree of a bucketed game."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overtrick.config.job_file import GameChoice
from overtrick.core import (
    Array,
    BehaviouralPolicy,
    CompactFeatures,
    Game,
    UserError,
    WalkedGame,
)
from overtrick.datasets.card_abstraction_build import load_abstraction
from overtrick.evaluation.game_cache import cached_game
from overtrick.games import registry
from overtrick.games.poker.holdem.abstract_game import AbstractHoldem
from overtrick.policies.tabular import TabularPolicy
from overtrick.reports import figures
from overtrick.solvers import sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.public_tree import values
from overtrick.solvers.walks import exact_evaluation, view_policy
from overtrick.solvers.walks.cfr_by_walks import by_seat
from overtrick.solvers.walks.exact_evaluation import THREADS, Evaluation
from overtrick.solvers.walks.game_walk import GameWalk
from overtrick.solvers.walks.make_walk import check_size, make_walk
from overtrick.solvers.walks.view_policy import ViewPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TreeEvaluator:
    """Exact payoffs, NashConv and best responses of strategies on a game tree."""

    def __init__(self, game: Any, tree: Tree) -> None:
        self.game = game
        self.tree = tree
        self.legal, self.seat, self.seats = tree.legal, tree.observations.seat, tree.seats

    @property
    def inputs(self) -> Array:
        """Network inputs (N, F) of all information sets.

        Raises UserError if the game has no inputs for a network.
        """
        if not isinstance(self.game, CompactFeatures):
            raise UserError(
                f"{self.game.name} has no inputs for a network: set coevolve.genome to direct"
            )
        return self.game.compact_features(self.tree.observations)

    def check_strategy(self, sigma: Array) -> None:
        """Raise UserError unless sigma (N, A) is a strategy on the game tree."""
        best_response.check_strategy(self.tree, sigma)

    def expected_payoffs(self, sigmas: Array) -> Array:
        """Return the expected points per game (M, S) of S seats under M strategy profiles.

        `sigmas` (M, N, A): for each profile the probabilities of A actions at N information sets.
        Raises UserError for another shape. The probabilities are not validated.
        """
        return best_response.expected_batch(self.tree, sigmas)

    def nash_convs(self, sigmas: Array) -> Array:
        """Return the NashConv (M,) of M strategy profiles, in points per game.

        `sigmas` (M, N, A): for each profile the probabilities of A actions at N information sets.
        Raises UserError for another shape. The probabilities are not validated.
        """
        return best_response.nash_conv_batch(self.tree, sigmas)

    def best_response_payoff(self, sigma: Array, seat: int) -> float:
        """Return the points per game of a seat's best response to sigma (N, A)."""
        return best_response.best_response(self.tree, sigma, seat)[0]

    @cached_property
    def _value(self) -> float:
        """Value of the game for seat 0, by linear programming."""
        return sequence_form.equilibrium(self.tree)[0]

    def equilibrium_payoff(self, seat: int) -> float:
        """Return the points per game of a seat in equilibrium, by linear programming."""
        return self._value if seat == 0 else -self._value

    def figures(self, sigma: Array) -> dict[str, Figure]:
        """Draw a strategy (N, A) and the game tree; return the figures by name.

        There are none if the tree has more than `figures.MAX_INFOSETS` information sets.
        """
        tree, game = self.tree, self.game
        if tree.infosets > figures.MAX_INFOSETS or not isinstance(game, Game):
            return {}
        situations = [game.describe(each) for each in tree.observations.observation]
        probability = best_response.edge_probability(tree, sigma)
        return {
            "strategy": figures.strategy_bars(sigma, situations, game.action_names),
            "tree": figures.game_tree(tree, probability, game.action_names),
        }


class BucketedEvaluator:
    """Exact payoffs, NashConv and best responses in limit hold'em with bucketed hands.

    The computation runs on the public tree, with a vector over the buckets at each node. Raises
    UserError if the file of the card abstraction is missing, damaged, or not the game's.
    """

    seats = 2

    def __init__(self, game: AbstractHoldem) -> None:
        self.game = game
        self.tables = load_abstraction(game.file)
        game.check_file()
        self.view = values.index_game(*game.bucketed_game(self.tables))
        self.legal, self.seat = self.view.legal, self.view.seat

    @cached_property
    def inputs(self) -> Array:
        """Network inputs (N, F) of all information sets."""
        return self.game.bucket_features(self.view.buckets)

    def check_strategy(self, sigma: Array) -> None:
        """Raise UserError unless sigma (N, A) is a strategy on the public tree."""
        values.check_strategy(self.view, sigma)

    def expected_payoffs(self, sigmas: Array) -> Array:
        """Return the expected points per game (M, S) of S seats under M strategy profiles.

        `sigmas` (M, N, A): for each profile the probabilities of A actions at N information sets.
        """
        return values.expected(self.view, sigmas)

    def nash_convs(self, sigmas: Array) -> Array:
        """Return the NashConv (M,) of M strategy profiles, in points per game.

        `sigmas` (M, N, A): for each profile the probabilities of A actions at N information sets.
        """
        return values.nash_conv(self.view, sigmas)

    def best_response_payoff(self, sigma: Array, seat: int) -> float:
        """Return the points per game of a seat's best response to sigma (N, A)."""
        return values.best_response(self.view, sigma, seat)[0]

    def equilibrium_payoff(self, seat: int) -> float:
        """Raise UserError, because equilibrium payoffs are computed only on game trees."""
        raise UserError(f"{self.game.name}: one seat evolves alone only in games with a tree")

    def figures(self, sigma: Array) -> dict[str, Figure]:
        """Draw the transitions between buckets of hands, and a strategy's action probabilities.

        The probabilities are means for each bucket and betting round. They are drawn only if the
        game's option `index` is "paper". With this option the information sets do not contain the
        betting of earlier rounds, as in Samothrakis and Lucas 2011.
        """
        drawn = {"buckets": figures.bucket_graph(self.tables.start, self.tables.moves)}
        if self.game.index == "paper":
            rounds = self.game.situations()[:, 0]
            by_round = [
                sigma.reshape(len(rounds), self.view.buckets, -1)[rounds == r].mean(axis=0)
                for r in range(len(self.tables.moves) + 1)
            ]
            drawn["intensity"] = figures.action_heatmaps(np.stack(by_round), self.game.action_names)
        return drawn


StrategyEvaluator = TreeEvaluator | BucketedEvaluator
"""Exact evaluation in one game of a strategy profile (N, A), or of M strategy profiles (M, N, A).

`legal` (N, A) is the mask of legal actions, `seat` (N,) the seat that acts at each information set.
"""


class WalkEvaluator:
    """Exact payoffs and NashConv of strategies (L,) in a game evaluated by walks.

    A strategy has the probability of each legal action in each view of seat 0, then of seat 1.
    """

    seats = 2

    def __init__(self, game: WalkedGame) -> None:
        """Check that the game is small enough. Raises UserError if not."""
        check_size(game)
        self.game = game

    @cached_property
    def walk(self) -> GameWalk:
        """The walk over the game, with its information sets numbered."""
        return make_walk(self.game)

    def check_strategy(self, strategy: Array) -> None:
        """Raise UserError unless an array (L,) is a strategy of this game."""
        view_policy.check_strategy(self.walk, strategy)

    def evaluate(self, strategy: Array) -> Evaluation:
        """Return values, best responses and NashConv of a strategy (L,), by one walk."""
        return exact_evaluation.evaluate(self.walk, by_seat(self.walk, strategy), THREADS)


SolvableEvaluator = StrategyEvaluator | WalkEvaluator
"""Exact evaluation of the strategies of every game that the solvers support."""


def strategy_name(evaluator: SolvableEvaluator) -> str:
    """Return the name of a strategy's array in a stored model."""
    return view_policy.PROBABILITIES if isinstance(evaluator, WalkEvaluator) else "sigma"


def strategy_policy(evaluator: SolvableEvaluator, strategy: Array) -> BehaviouralPolicy:
    """Return a strategy as a policy for every seat."""
    if isinstance(evaluator, WalkEvaluator):
        return ViewPolicy(evaluator.walk, strategy)
    return TabularPolicy(strategy)


def equilibrium_distance(evaluator: SolvableEvaluator, sigma: Array) -> dict[str, Any]:
    """Return exploitability, NashConv and expected payoffs of a strategy profile.

    `sigma`: (N, A), or (L,) in a game evaluated by walks.

    Returns a dict of numbers in points per game:

    - `exploitability`: NashConv divided by the number of seats.
    - `nash_conv`: NashConv.
    - `values`: list of the expected payoffs of all seats.
    """
    if isinstance(evaluator, WalkEvaluator):
        found = evaluator.evaluate(sigma)
        return {
            "exploitability": found.exploitability,
            "nash_conv": found.nash_conv,
            "values": found.values.tolist(),
        }
    gap = float(evaluator.nash_convs(sigma[None])[0])
    return {
        "exploitability": gap / evaluator.seats,
        "nash_conv": gap,
        "values": evaluator.expected_payoffs(sigma[None])[0].tolist(),
    }


_evaluators: dict[str, StrategyEvaluator] = {}
_walk_evaluators: dict[str, WalkEvaluator] = {}


def evaluator_of(choice: GameChoice, memory: int | None = None) -> StrategyEvaluator:
    """Return the evaluator of strategies in a game, from the cache of this process.

    `memory`: memory limit of the tree in bytes; None: the free memory of the machine. Raises
    UserError if the tree exceeds the limit, if the game has imperfect recall or no tree to which a
    limit applies, and if the file of a card abstraction is missing, damaged or another one.
    """
    key = f"{choice.model_dump_json()} {memory}"
    if key not in _evaluators:
        game, tree = cached_game(choice, memory)
        if tree is None and memory is not None:
            raise _no_memory_limit(choice)
        _evaluators[key] = BucketedEvaluator(game) if tree is None else TreeEvaluator(game, tree)
    return _evaluators[key]


def _no_memory_limit(choice: GameChoice) -> UserError:
    return UserError(f"{choice.name} is solved without a tree: leave the limit of memory out")


def solvable_evaluator(choice: GameChoice, memory: int | None = None) -> SolvableEvaluator:
    """Return the evaluator of strategies in a game, also in one that is evaluated by walks.

    `memory` and errors are those of `evaluator_of`.
    """
    game = registry.make(choice.name, **choice.options)
    if not isinstance(game, WalkedGame):
        return evaluator_of(choice, memory)
    if memory is not None:
        raise _no_memory_limit(choice)
    key = choice.model_dump_json()
    if key not in _walk_evaluators:
        _walk_evaluators[key] = WalkEvaluator(game)
    return _walk_evaluators[key]
