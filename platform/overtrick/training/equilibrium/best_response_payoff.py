"""Payoff of a seat's best response to fixed strategies: exact, by look-ahead, or by evolution.

With the other seats' strategies fixed, a game is a single-agent problem. Three methods solve it:

- exact: a traversal of the game tree gives the exact payoff.
- look-ahead: expectimax and Monte Carlo tree search give a lower bound, which approaches the exact
  payoff as depth and number of simulations grow.
- evolution: an evolution strategy searches for the response, and gives a lower bound.

Source: Samothrakis and Lucas 2011, section 3.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.sections import Count, Positive, Section, UnusedKeys
from overtrick.core import Array
from overtrick.population.evolution_strategy import EvolutionStrategy
from overtrick.population.genomes import GenomeEncoding
from overtrick.solvers.extensive import best_response
from overtrick.solvers.lookahead import expectimax_mcts
from overtrick.training.equilibrium.strategy_evaluator import StrategyEvaluator, TreeEvaluator


class Inner(Section):
    """Settings of the inner loop of `coevolve`: best responses to the strategies that evolve."""

    unused_keys = (
        UnusedKeys({"kind": ("exact", "evolved")}, ("depth", "simulations")),
        UnusedKeys({"kind": ("searched",), "depth": (None,)}, ("simulations",)),
        UnusedKeys(
            {"kind": ("exact", "searched")},
            ("generations", "generations_growth", "population", "step_size"),
        ),
    )

    kind: Literal["exact", "searched", "evolved"] = "exact"
    """Computation of best responses. exact: on the tree. searched: by look-ahead. evolved: by an
    evolution strategy.
    """

    depth: int | None = Field(default=None, ge=0)
    """Number of own decisions that the look-ahead searches exhaustively; null: all decisions."""

    simulations: Count = 1000
    """Simulations of Monte Carlo tree search at each information set below `depth`."""

    generations: Count = 5
    """Generations of the evolution of a best response, at the start of training."""

    generations_growth: float = Field(default=0.01, ge=0)
    """Generations added to the evolution of a best response per generation of the strategies."""

    population: int = Field(default=10, ge=4)
    """Genomes per generation in the evolution of a best response."""

    step_size: Positive = 0.5
    """Initial step size of the evolution of a best response."""


def estimate_best_response(
    section: Inner,
    evaluator: StrategyEvaluator,
    encoding: GenomeEncoding,
    sigma: Array,
    seat: int,
    warm_start: Array,
    generation: int,
    rng: Generator,
) -> tuple[float, Array]:
    """Return payoff and genome of a seat's best response to sigma, exact or approximate.

    The payoff is in points per game. It is the exact payoff of the response found, and therefore a
    lower bound on the payoff of an exact best response.

    - `section`: settings; `section.kind` is "exact", "searched" or "evolved".
    - `encoding`: translates genomes (vectors of P numbers) to strategies.
    - `sigma` (N, A): strategies of all seats.
    - `warm_start` (P,): initial genome of the evolution of the best response. It is returned
      unchanged unless `section.kind` is "evolved".
    - `generation`: number of generations for which sigma itself has evolved. The evolution of the
      best response gets longer by `section.generations_growth` generations for each of them.
    """
    if section.kind == "exact":
        return evaluator.best_response_payoff(sigma, seat), warm_start
    if section.kind == "searched":
        assert isinstance(evaluator, TreeEvaluator)  # checked when the job is validated
        tree = evaluator.tree
        depth = tree.max_decisions(seat) if section.depth is None else section.depth
        found = expectimax_mcts.expectimax(tree, sigma, seat, depth, section.simulations, rng)
        return float(best_response.expected(tree, found.sigma)[seat]), warm_start
    own = (evaluator.seat == seat)[:, None]

    def payoffs(genomes: Array) -> Array:
        responses = np.where(own, encoding.strategies(genomes), sigma)
        return evaluator.expected_payoffs(responses)[:, seat]

    best, best_payoff = warm_start, float(payoffs(warm_start[None])[0])
    strategy = EvolutionStrategy(
        lambda _: warm_start, section.step_size, section.population, "csa", rng
    )
    for _ in range(section.generations + int(section.generations_growth * generation)):
        genomes = strategy.ask()
        score = payoffs(genomes)
        strategy.tell(genomes, score)
        if score.max() > best_payoff:
            best, best_payoff = genomes[score.argmax()], float(score.max())
    return best_payoff, best
