"""How badly strategies can be beaten: three answers to one question, for M strategies at once.

A game with the others' strategies fixed is a search for one seat alone. Exact answers come from
the tree; a search comes to them as its depth and simulations grow; an inner evolution is a lower
bound. Samothrakis and Lucas 2011, section 3.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Positive, Section
from overtrick.core import Array
from overtrick.population.evolution_strategy import EvolutionStrategy
from overtrick.population.genomes import GenomeEncoding
from overtrick.solvers.extensive import best_response
from overtrick.solvers.lookahead import expectimax_mcts
from overtrick.training.equilibrium.strategy_evaluator import StrategyEvaluator, TreeEvaluator


class Inner(Section):
    """Who plays against the genomes."""

    kind: Literal["exact", "searched", "evolved"] = Field(
        default="exact", description="best response on the tree, look-ahead, or inner evolution"
    )
    depth: int | None = Field(
        default=None, ge=0, description="own decisions that the search weighs exactly; none: all"
    )
    simulations: Count = Field(
        default=1000, description="of Monte Carlo tree search at each information set below that"
    )
    generations: Count = Field(default=5, description="of the inner evolution at the start")
    generations_growth: float = Field(
        default=0.01, ge=0, description="inner generations more for each outer generation"
    )
    population: int = Field(default=10, ge=4, description="genomes of an inner generation")
    step_size: Positive = Field(default=0.5, description="initial step size of the inner evolution")


def reply_won(
    plan: Inner,
    arena: StrategyEvaluator,
    genome: GenomeEncoding,
    sigma: Array,
    seat: int,
    warm: Array,
    generation: int,
    rng: Generator,
) -> tuple[float, Array]:
    """What a seat wins at most, as far as the inner evaluation knows, if the others play sigma.

    Returns points, and the genome (P,) of the reply where it was evolved, else `warm` as given:
    the best reply so far, from which an inner evolution starts. The points are what the reply
    really wins, so they never exceed a best response's.
    """
    if plan.kind == "exact":
        return arena.reply_worth(sigma, seat), warm
    if plan.kind == "searched":
        return _searched(plan, arena, sigma, seat, rng), warm
    generations = plan.generations + int(plan.generations_growth * generation)
    return _evolved(plan, arena, genome, sigma, seat, warm, generations, rng)


def _searched(
    plan: Inner, arena: StrategyEvaluator, sigma: Array, seat: int, rng: Generator
) -> float:
    """What a look-ahead's strategy really wins."""
    assert isinstance(arena, TreeEvaluator)  # a job that searches elsewhere has been refused
    tree = arena.tree
    depth = tree.max_decisions(seat) if plan.depth is None else plan.depth
    found = expectimax_mcts.expectimax(tree, sigma, seat, depth, plan.simulations, rng)
    return float(best_response.expected(tree, found.sigma)[seat])


def _evolved(
    plan: Inner,
    arena: StrategyEvaluator,
    genome: GenomeEncoding,
    sigma: Array,
    seat: int,
    warm: Array,
    generations: int,
    rng: Generator,
) -> tuple[float, Array]:
    """What the best reply of an inner run of the same strategy wins, and its genome."""
    own = (arena.seat == seat)[:, None]

    def won(genes: Array) -> Array:
        replies = np.where(own, genome.strategies(genes), sigma)
        return arena.expecteds(replies)[:, seat]

    best, best_won = warm, float(won(warm[None])[0])
    strategy = EvolutionStrategy(lambda _: warm, plan.step_size, plan.population, "csa", rng)
    for _ in range(generations):
        genes = strategy.ask()
        score = won(genes)
        strategy.tell(genes, score)
        if score.max() > best_won:
            best, best_won = genes[score.argmax()], float(score.max())
    return best_won, best
