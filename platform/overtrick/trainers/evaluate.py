"""How well a model adapts to strangers, exactly: payoff before and after each step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick import games
from overtrick.config import Count, GameChoice, Opponent, Positive, Section
from overtrick.core import Game, Mixed, Refused, Unfolded
from overtrick.figures import payoff_name
from overtrick.policies import Weights
from overtrick.solvers import value
from overtrick.solvers.tree import Tree, build
from overtrick.trainers.adaptation import Credit, adapted_payoffs, best_response_payoff
from overtrick.trainers.strangers import label, stranger
from overtrick.workers import Crew


class Evaluate(Section):
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

    steps: Count = Field(default=3, description="gradient steps of adaptation")
    step: Positive = Field(default=0.1, description="size of a gradient step at test")
    games: Count = Field(default=200, description="sampled games a step")
    draws: int = Field(default=20, ge=2, description="independent adaptations that are averaged")
    every: Count = Field(default=10, description="training iterations between evaluations")


Row = dict[str, Any]
"""stranger, steps (means before, after 1, 2, ...), standard_error (a step each),
best_response, share = steps[-1] / best_response (None where that is below 0.01)."""


def evaluate(
    choice: GameChoice,
    theta: Weights,
    critic: Weights,
    how: Evaluate,
    gamma: float,
    credit: Credit,
    crew: Crew,
    rng: Generator,
) -> list[Row]:
    """One row for each stranger; values are exact, only the adaptation games are sampled."""
    common = (choice, theta, critic, how, gamma, credit)
    return crew.map(_row, common, [(name,) for name in how.strangers], rng)


def _row(rng: Generator, common: Any, name: str) -> Row:
    choice, theta, critic, how, gamma, credit = common
    game, tree = game_and_tree(choice)
    opponent = opponent_of(choice, name)
    payoffs = adapted_payoffs(
        game,
        tree,
        theta,
        critic,
        opponent,
        how.draws,
        how.steps,
        how.step,
        how.games,
        gamma,
        credit,
        rng,
    )
    best = best_response_payoff(tree, value.sigma_of(tree, [opponent] * tree.seats))
    means = payoffs.mean(axis=0)
    errors = payoffs.std(axis=0, ddof=1) / np.sqrt(how.draws)
    return {
        "stranger": name,
        "steps": [float(m) for m in means],
        "standard_error": [float(e) for e in errors],
        "best_response": best,
        "share": float(means[-1] / best) if best > 0.01 else None,
    }


_cache: dict[str, Any] = {}


def known(choice: GameChoice, memory: int | None = None) -> tuple[Any, Tree | None]:
    """A game and its tree, kept by each process; None if it is no game that has one.

    memory: bytes that the tree may take. Raises Refused if it would not fit, or for a game that is
    played but too large for a tree.
    """
    key = f"{choice.model_dump_json()} {memory}"
    if key not in _cache:
        game = games.make(choice.name, **choice.options)
        tree = build(game, memory) if isinstance(game, (Game, Unfolded)) else None
        _cache[key] = game, tree
    return _cache[key]


def game_and_tree(choice: GameChoice) -> tuple[Any, Tree]:
    """The same, of a game that two can play. Raises Refused for another."""
    game, tree = known(choice)
    if game.seats != 2 or tree is None or not isinstance(game, Game):
        raise Refused(f"{game.name} is no game that 2 seats play: this trainer needs one")
    return game, tree


def opponent_of(choice: GameChoice, name: str) -> Mixed:
    """A stranger, kept by each process: CFR takes a moment."""
    key = choice.model_dump_json() + name
    if key not in _cache:
        _cache[key] = stranger(name, *game_and_tree(choice))
    return _cache[key]


def metrics_of(rows: list[Row], unit: str) -> dict[str, float]:
    """The rows as flat metrics, such as random/after_3_big_blind."""
    return {
        payoff_name(label(row["stranger"]), k, unit): payoff
        for row in rows
        for k, payoff in enumerate(row["steps"])
    }
