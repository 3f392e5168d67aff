"""How well a method adapts to strangers: payoff before and after each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config.job_file import Count, GameChoice, Opponent, Positive, Section, UnusedKeys
from overtrick.core import Array, BehaviouralPolicy, Game, UserError
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.game_cache import cached_equilibrium, cached_opponent, playable_game
from overtrick.games import registry
from overtrick.policies.rollout import play_duplicate
from overtrick.policies.tabular import TabularPolicy
from overtrick.reports.metric_names import opponent_label, payoff_name
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree


class EvaluationBudget(Section):
    """What a method may use against a stranger, and how it is then judged."""

    steps: Count = Field(default=3, description="steps of adaptation, each after games of its own")
    games: Count = Field(default=200, description="sampled games a step")
    repeats: int = Field(default=20, ge=2, description="independent adaptations that are averaged")
    eval_deals: int = Field(
        default=2000, ge=2,
        description="deals, played from every seat, that give each policy's payoff where no tree "
        "gives it exactly",
    )  # fmt: skip


class HeldOutEvaluation(EvaluationBudget):
    """How a model is judged, whatever its way to adapt."""

    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = (
        UnusedKeys({"exploitability_bound": (None,)}, ("bound_method",)),
    )

    opponents: tuple[Opponent, ...] = Field(
        default=("random", "call", "bluff", "cfr"),
        min_length=1,
        description="opponents or runs by name, or folders of models; training never meets them",
    )

    @field_validator("opponents")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        called = [opponent_label(name) for name in names]
        twice = sorted({name for name in called if called.count(name) > 1})
        if twice:
            raise ValueError(f"two of them are called {twice[0]}: rename a model's folder")
        return names

    every: Count = Field(default=10, description="training iterations between evaluations")
    exploitability_bound: float | None = Field(
        default=None, ge=0,
        description="points a game by which what an adapted policy can be beaten may exceed an "
        "equilibrium's, kept on the tree; none: adaptation is free",
    )  # fmt: skip
    bound_method: Literal["mixture", "nearest"] = Field(
        default="mixture",
        description="how a policy beyond that is held back. mixture: with the equilibrium, by "
        "drawing one of them before each game. nearest: the nearest strategy that is safe, which "
        "wins more and takes a linear program",
    )


class AdaptationEvaluation(HeldOutEvaluation):
    """How a model that adapts by gradient steps is judged."""

    learning_rate: Positive = Field(default=0.1, description="size of a gradient step at test")


class FixedPolicyEvaluation(HeldOutEvaluation):
    """How a model that never adapts is judged."""

    unused_keys = (
        *HeldOutEvaluation.unused_keys,
        UnusedKeys({}, ("steps", "games", "repeats"), "because this trainer's model never adapts"),
    )


Row = dict[str, Any]
"""stranger, steps (means before, after 1, 2, ...), standard_error (a step each), exploitability
(means, a step each; None without a tree), best_response (None without a tree), share = steps[-1] /
best_response (None where that is below 0.01 or None)."""

Adapt = Callable[
    [Generator, Any, Any, GameChoice, BehaviouralPolicy], Sequence[Sequence[BehaviouralPolicy]]
]
"""How a method meets an opponent, from what it knows: its policies before and after each step, one
or as many as there are independent adaptations. At the top of a module, for it goes to workers."""


def check_evaluation(choice: GameChoice, how: HeldOutEvaluation) -> None:
    """Raise UserError for a stranger that does not exist, or a bound that cannot be kept."""
    game, tree = playable_game(choice)
    for name in how.opponents:
        reference_opponents.check_opponent(name, game, tree)
    if how.exploitability_bound is None:
        return
    if tree is None:
        raise UserError(
            f"evaluate.exploitability_bound: a bound is kept on a tree, and {game.name} is too "
            "large for one: "
            "leave it out"
        )
    sequence_form.check_two_player_zero_sum(tree, "evaluate.exploitability_bound")


def evaluate(
    choice: GameChoice,
    adapt: Adapt,
    knows: Any,
    how: HeldOutEvaluation,
    crew: WorkerPool,
    rng: Generator,
) -> list[Row]:
    """One row for each stranger. Payoffs are exact where there is a tree, else from games that
    nothing is learnt from. Raises UserError as check."""
    check_evaluation(choice, how)
    common = (choice, adapt, knows, how)
    return crew.map(_row, common, [(name,) for name in how.opponents], rng)


def _row(rng: Generator, common: Any, name: str) -> Row:
    choice, adapt, knows, how = common
    game, tree = playable_game(choice)
    opponent, scored = cached_opponent(choice, name), registry.evaluation_game(game)
    steps = adapt(rng, knows, how, choice, opponent)
    means, errors, gaps = [], [], []
    for policies, step_rng in zip(steps, rng.spawn(len(steps)), strict=True):
        safe = (
            policies
            if how.exploitability_bound is None
            else bound_exploitability(choice, policies, how)
        )
        won = [
            payoff_against(scored, tree, policy, opponent, how.eval_deals, luck)
            for policy, luck in zip(safe, step_rng.spawn(len(safe)), strict=True)
        ]
        mean, error = np.array(won).T
        means.append(float(mean.mean()))
        alone = len(won) == 1  # else the spread holds the luck of the judging too
        errors.append(float(error[0] if alone else mean.std(ddof=1) / np.sqrt(len(won))))
        if tree is not None:
            sigmas = [best_response.sigma_of(tree, [policy] * tree.seats) for policy in safe]
            gaps.append(
                float(np.mean([best_response.exploitability(tree, each) for each in sigmas]))
            )
    best = None
    if tree is not None:
        best = best_response_payoff(tree, best_response.sigma_of(tree, [opponent] * tree.seats))
    return {
        "stranger": name,
        "steps": means,
        "standard_error": errors,
        "exploitability": gaps if tree is not None else None,
        "best_response": best,
        "share": means[-1] / best if best is not None and best > 0.01 else None,
    }


def bound_exploitability(
    choice: GameChoice, policies: Sequence[BehaviouralPolicy], how: HeldOutEvaluation
) -> list[BehaviouralPolicy]:
    """Policies that keep the bound of how, each made of the one in its place."""
    _, tree = playable_game(choice)
    assert tree is not None
    assert how.exploitability_bound is not None
    safe = cached_equilibrium(choice)
    done: dict[bytes, BehaviouralPolicy] = {}  # before the first step all draws are one policy
    out = []
    for policy in policies:
        free = best_response.sigma_of(tree, [policy] * 2)
        key = free.tobytes()
        if key not in done:
            if how.bound_method == "nearest":
                done[key] = TabularPolicy(
                    safe_exploitation.nearest_safe_strategy(
                        tree, safe, free, how.exploitability_bound
                    )
                )
            else:
                done[key] = TabularPolicy(
                    safe_exploitation.largest_safe_mixture(
                        tree, safe, free, how.exploitability_bound
                    )[0]
                )
        out.append(done[key])
    return out


def without_adaptation(
    rng: Generator,
    policy: BehaviouralPolicy,
    how: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """How a policy that never adapts meets an opponent."""
    return [[policy]]


def payoff_against(
    game: Game,
    tree: Tree | None,
    policy: BehaviouralPolicy,
    opponent: BehaviouralPolicy,
    deals: int,
    rng: Generator,
) -> tuple[float, float]:
    """Points a game against an opponent in all other seats, the mean over the seats, and their
    standard error: exactly if there is a tree, else so many deals are played from every seat."""
    if tree is not None:
        mine, theirs = (
            best_response.sigma_of(tree, [each] * tree.seats) for each in (policy, opponent)
        )
        return exact_payoff(tree, mine, theirs), 0.0
    _, won = play_duplicate(game, policy, opponent, deals, rng)
    return float(won.mean()), float(won.std(ddof=1) / np.sqrt(deals))


def exact_payoff(tree: Tree, sigma: Array, opponent: Array) -> float:
    """Points a game of a strategy (N, A) against another in all other seats, the mean over the
    seats, exactly."""
    total = 0.0
    for seat in range(tree.seats):
        mine = (tree.observations.seat == seat)[:, None]
        total += float(best_response.expected(tree, np.where(mine, sigma, opponent))[seat])
    return total / tree.seats


def best_response_payoff(tree: Tree, opponent: Array) -> float:
    """The most that anyone can win a game against an opponent, the mean over the seats."""
    won = [best_response.best_response(tree, opponent, seat)[0] for seat in range(tree.seats)]
    return sum(won) / tree.seats


def flat_metrics(rows: list[Row], unit: str) -> dict[str, float]:
    """The rows as flat metrics, such as random/after_3_big_blind."""
    return {
        payoff_name(opponent_label(row["stranger"]), k, unit): payoff
        for row in rows
        for k, payoff in enumerate(row["steps"])
    }
