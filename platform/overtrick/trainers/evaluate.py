"""How well a method adapts to strangers: payoff before and after each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config import Count, GameChoice, Opponent, Positive, Section
from overtrick.core import Array, Game, Mixed
from overtrick.figures import payoff_name
from overtrick.play import duplicate
from overtrick.solvers import value
from overtrick.solvers.tree import Tree
from overtrick.trainers.kept import opponent_of, two_seats
from overtrick.trainers.strangers import label
from overtrick.workers import Crew


class Budget(Section):
    """What a method may use against a stranger, and how it is then judged."""

    steps: Count = Field(default=3, description="gradient steps of adaptation")
    games: Count = Field(default=200, description="sampled games a step")
    draws: int = Field(default=20, ge=2, description="independent adaptations that are averaged")
    judged: int = Field(
        default=2000, ge=2,
        description="deals, played from both seats, that give each policy's payoff where no tree "
        "gives it exactly",
    )  # fmt: skip


class Evaluate(Budget):
    """How a model is judged."""

    strangers: tuple[Opponent, ...] = Field(
        default=("random", "call", "bluff", "cfr"),
        min_length=1,
        description="opponents by name, or folders of models; training never meets them",
    )

    @field_validator("strangers")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        called = [label(name) for name in names]
        twice = sorted({name for name in called if called.count(name) > 1})
        if twice:
            raise ValueError(f"two of them are called {twice[0]}: rename a model's folder")
        return names

    step: Positive = Field(default=0.1, description="size of a gradient step at test")
    every: Count = Field(default=10, description="training iterations between evaluations")


Row = dict[str, Any]
"""stranger, steps (means before, after 1, 2, ...), standard_error (a step each),
best_response (None without a tree), share = steps[-1] / best_response (None where that is below
0.01 or None)."""

Adapt = Callable[[Generator, Any, Evaluate, GameChoice, Mixed], Sequence[Sequence[Mixed]]]
"""How a method meets an opponent, from what it knows: its policies before and after each step, one
or as many as there are independent adaptations. At the top of a module, for it goes to workers."""


def evaluate(
    choice: GameChoice, adapt: Adapt, knows: Any, how: Evaluate, crew: Crew, rng: Generator
) -> list[Row]:
    """One row for each stranger. Payoffs are exact where there is a tree, else from games that
    nothing is learnt from."""
    common = (choice, adapt, knows, how)
    return crew.map(_row, common, [(name,) for name in how.strangers], rng)


def _row(rng: Generator, common: Any, name: str) -> Row:
    choice, adapt, knows, how = common
    game, tree = two_seats(choice)
    opponent = opponent_of(choice, name)
    steps = adapt(rng, knows, how, choice, opponent)
    means, errors = [], []
    for policies, step_rng in zip(steps, rng.spawn(len(steps)), strict=True):
        won = [
            payoff_against(game, tree, policy, opponent, how.judged, luck)
            for policy, luck in zip(policies, step_rng.spawn(len(policies)), strict=True)
        ]
        mean, error = np.array(won).T
        means.append(float(mean.mean()))
        alone = len(won) == 1  # else the spread holds the luck of the judging too
        errors.append(float(error[0] if alone else mean.std(ddof=1) / np.sqrt(len(won))))
    best = None
    if tree is not None:
        best = best_response_payoff(tree, value.sigma_of(tree, [opponent] * 2))
    return {
        "stranger": name,
        "steps": means,
        "standard_error": errors,
        "best_response": best,
        "share": means[-1] / best if best is not None and best > 0.01 else None,
    }


def unchanged(
    rng: Generator, policy: Mixed, how: Evaluate, choice: GameChoice, opponent: Mixed
) -> list[list[Mixed]]:
    """How a policy that never adapts meets an opponent."""
    return [[policy]]


def payoff_against(
    game: Game, tree: Tree | None, policy: Mixed, opponent: Mixed, deals: int, rng: Generator
) -> tuple[float, float]:
    """Points a game, the mean over both seats, and their standard error: exactly if there is a
    tree, else so many deals are played from both seats."""
    if tree is not None:
        mine, theirs = (value.sigma_of(tree, [each] * 2) for each in (policy, opponent))
        return exact_payoff(tree, mine, theirs), 0.0
    _, won = duplicate(game, policy, opponent, deals, rng)
    return float(won.mean()), float(won.std(ddof=1) / np.sqrt(deals))


def exact_payoff(tree: Tree, sigma: Array, opponent: Array) -> float:
    """Points a game of a strategy (N, A) against another, the mean over both seats, exactly."""
    total = 0.0
    for seat in range(2):
        mine = (tree.turn.seat == seat)[:, None]
        total += float(value.expected(tree, np.where(mine, sigma, opponent))[seat])
    return total / 2


def best_response_payoff(tree: Tree, opponent: Array) -> float:
    """The most that anyone can win a game against an opponent, the mean over both seats."""
    return sum(value.best_response(tree, opponent, seat)[0] for seat in range(2)) / 2


def metrics_of(rows: list[Row], unit: str) -> dict[str, float]:
    """The rows as flat metrics, such as random/after_3_big_blind."""
    return {
        payoff_name(label(row["stranger"]), k, unit): payoff
        for row in rows
        for k, payoff in enumerate(row["steps"])
    }
