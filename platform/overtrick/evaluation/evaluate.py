"""Evaluation against held-out opponents: payoff before and after each step of adaptation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count, Opponent, Positive, Section, UnusedKeys
from overtrick.core import Array, BehaviouralPolicy, Game, UserError, WalkedGame
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import exact_by_walks, reference_opponents
from overtrick.evaluation.game_cache import cached_equilibrium, cached_opponent, playable_game
from overtrick.games import registry
from overtrick.policies.rollout import play_duplicate
from overtrick.policies.tabular import TabularPolicy
from overtrick.reports.metric_names import opponent_label, payoff_name
from overtrick.solvers import safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.walks.make_walk import is_evaluated_by_walks


class EvaluationBudget(Section):
    """Settings: steps and games of adaptation to an opponent, and deals that measure its effect."""

    steps: Count = 3
    """Steps of adaptation; each step uses newly sampled games."""

    games: Count = 200
    """Sampled games per step of adaptation."""

    repeats: int = Field(default=20, ge=2)
    """Independent repetitions of the adaptation; their results are averaged."""

    eval_deals: int = Field(default=2000, ge=2)
    """Deals that estimate a policy's payoff, each played from every seat. Unused in games small
    enough for a tree, whose payoffs are exact.
    """


class HeldOutEvaluation(EvaluationBudget):
    """Settings of an evaluation against held-out opponents, for any method of adaptation."""

    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = (
        UnusedKeys({"exploitability_bound": (None,)}, ("bound_method",)),
    )

    opponents: tuple[Opponent, ...] = Field(
        default=("random", "call", "bluff", "cfr"), min_length=1
    )
    """Held-out opponents: names of reference opponents or runs, or folders of models."""

    @field_validator("opponents")
    @classmethod
    def _labels_are_unique(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        labels = [opponent_label(name) for name in names]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two opponents have the name {twice[0]}: rename a model's folder")
        return names

    every: Count = 10
    """Training iterations between evaluations."""

    exploitability_bound: float | None = Field(default=None, ge=0)
    """Largest exploitability of an adapted policy beyond an equilibrium's, in points per game. It
    needs a game small enough for a tree; null: no bound.
    """

    bound_method: Literal["mixture", "nearest"] = "mixture"
    """Replacement for a policy that exceeds the bound. mixture: draw the policy or the equilibrium
    before each game. nearest: the nearest strategy within the bound, by a linear program; it wins
    more.
    """


class AdaptationEvaluation(HeldOutEvaluation):
    """Settings of the evaluation of a model that adapts to held-out opponents by gradient steps."""

    learning_rate: Positive = 0.1
    """Learning rate of the gradient steps of adaptation."""


class FixedPolicyEvaluation(HeldOutEvaluation):
    """Settings of the evaluation of a model that never adapts."""

    unused_keys = (
        *HeldOutEvaluation.unused_keys,
        UnusedKeys({}, ("steps", "games", "repeats"), "because this trainer's model never adapts"),
    )


Row = dict[str, Any]
"""Result against one held-out opponent, with these keys:

- stranger: name of the opponent.
- steps: mean payoffs before adaptation and after 1, 2, ... steps.
- standard_error, exploitability: one value for each entry of `steps`.
- best_response: payoff of a best response.
- share: steps[-1] / best_response; None unless best_response is above 0.01.

Without a tree exploitability, best_response and share are None; `with_best_responses` adds the
latter two in games evaluated by walks.
"""

MIN_BEST_RESPONSE = 0.01
"""Payoff of a best response, in points, below which shares are left out."""

Adapt = Callable[
    [Generator, Any, Any, GameChoice, BehaviouralPolicy], Sequence[Sequence[BehaviouralPolicy]]
]
"""Function that adapts a model to an opponent.

Its arguments are (rng, model, evaluation section, game, opponent). It returns the policies before
adaptation and after each step. Each entry is a list with one policy, or with one policy for each
repetition. The function is sent to workers, so it must be defined at the top level of a module.
"""


def check_evaluation(choice: GameChoice, section: HeldOutEvaluation) -> None:
    """Raise UserError for an unknown opponent, or a bound on exploitability in an unsuitable game.

    Such a bound needs a zero-sum game of two seats with a game tree.
    """
    game, tree = playable_game(choice)
    for name in section.opponents:
        reference_opponents.check_opponent(name, game, tree)
    if section.exploitability_bound is None:
        return
    if tree is None:
        raise UserError(
            f"evaluate.exploitability_bound: a bound needs a tree, and {game.name} is too "
            "large for one: leave it out"
        )
    sequence_form.check_two_player_zero_sum(tree, "evaluate.exploitability_bound")


def evaluate(
    choice: GameChoice,
    adapt: Adapt,
    model: Any,
    section: HeldOutEvaluation,
    pool: WorkerPool,
    rng: Generator,
) -> list[Row]:
    """Evaluate a model against each held-out opponent; return one row per opponent.

    `model`: anything that `adapt` accepts, such as weights. Payoffs are exact if the game has a
    tree. Otherwise they are estimated from games that are not used for adaptation. Raises UserError
    as `check_evaluation` does.
    """
    check_evaluation(choice, section)
    common = (choice, adapt, model, section)
    return pool.map(_evaluate_opponent, common, [(name,) for name in section.opponents], rng)


def with_best_responses(
    choice: GameChoice, rows: Sequence[Row], pool: WorkerPool | None
) -> list[Row]:
    """Add the exact payoffs of best responses to rows, if the game is evaluated by walks.

    In other games the rows stay as they are. `pool`: workers that share each walk; None: threads
    of this process.
    """
    game, _ = playable_game(choice)
    if not is_evaluated_by_walks(game):
        return list(rows)
    payoffs = [_best_response_payoff(choice, game, row["stranger"], pool) for row in rows]
    return [_with_best_response(row, payoff) for row, payoff in zip(rows, payoffs, strict=True)]


def _best_response_payoff(
    choice: GameChoice, game: WalkedGame, name: str, pool: WorkerPool | None
) -> float | None:
    """Return the payoff per game of a best response to an opponent, averaged over both seats.

    Returns None for an opponent without action probabilities.
    """
    opponent = cached_opponent(choice, name)
    if not isinstance(opponent, BehaviouralPolicy):
        return None
    found = exact_by_walks.evaluate_players(game, [opponent] * 2, pool=pool)
    return float(found.best_response_values.mean())


def _evaluate_opponent(rng: Generator, common: Any, name: str) -> Row:
    """Adapt a model to one held-out opponent; return the `Row` of results against this opponent.

    `common`: the tuple (game, `Adapt` function, model, settings). `name`: the opponent's name.
    """
    choice, adapt, model, section = common
    game, tree = playable_game(choice)
    opponent, eval_game = cached_opponent(choice, name), registry.evaluation_game(game)
    steps = adapt(rng, model, section, choice, opponent)
    means, errors, exploitabilities = [], [], []
    if section.exploitability_bound is not None:
        steps = [bound_exploitability(choice, policies, section) for policies in steps]
    for policies, step_rng in zip(steps, rng.spawn(len(steps)), strict=True):
        payoffs = [
            payoff_against(eval_game, tree, policy, opponent, section.eval_deals, policy_rng)
            for policy, policy_rng in zip(policies, step_rng.spawn(len(policies)), strict=True)
        ]
        mean, error = np.array(payoffs).T
        means.append(float(mean.mean()))
        # the spread of several policies' payoffs includes the error of each estimate
        single = len(payoffs) == 1
        errors.append(float(error[0] if single else mean.std(ddof=1) / np.sqrt(len(payoffs))))
        if tree is not None:
            found = [best_response.exploitability(tree, _sigma(tree, each)) for each in policies]
            exploitabilities.append(float(np.mean(found)))
    row = {
        "stranger": name,
        "steps": means,
        "standard_error": errors,
        "exploitability": exploitabilities if tree is not None else None,
    }
    best = None if tree is None else best_response_payoff(tree, _sigma(tree, opponent))
    return _with_best_response(row, best)


def _with_best_response(row: Row, best: float | None) -> Row:
    """Add the payoff of a best response, and the share of it that the last step wins."""
    share = row["steps"][-1] / best if best is not None and best > MIN_BEST_RESPONSE else None
    return {**row, "best_response": best, "share": share}


def _sigma(tree: Tree, policy: BehaviouralPolicy) -> Array:
    """Tabulate a policy's action probabilities (N, A) at the information sets of all seats."""
    return best_response.sigma_of(tree, [policy] * tree.seats)


def bound_exploitability(
    choice: GameChoice, policies: Sequence[BehaviouralPolicy], section: HeldOutEvaluation
) -> list[BehaviouralPolicy]:
    """Replace each policy that is too exploitable by an epsilon-safe strategy.

    Epsilon is `section.exploitability_bound`: the largest exploitability beyond an equilibrium's,
    in points per game. `section.bound_method` selects the replacement:

    - mixture: the policy mixed with an equilibrium.
    - nearest: the epsilon-safe strategy nearest to the policy.
    """
    _, tree = playable_game(choice)
    bound = section.exploitability_bound
    assert tree is not None
    assert bound is not None
    equilibrium = cached_equilibrium(choice)
    strategies = [_sigma(tree, policy) for policy in policies]
    distinct = {sigma.tobytes(): sigma for sigma in strategies}  # repetitions may share a policy
    bounded: dict[bytes, BehaviouralPolicy] = {}
    for key, sigma in distinct.items():
        if section.bound_method == "nearest":
            safe = safe_exploitation.nearest_safe_strategy(tree, equilibrium, sigma, bound)
        else:
            safe = safe_exploitation.largest_safe_mixture(tree, equilibrium, sigma, bound)[0]
        bounded[key] = TabularPolicy(safe)
    return [bounded[sigma.tobytes()] for sigma in strategies]


def without_adaptation(
    rng: Generator, policy: BehaviouralPolicy, *unused: Any
) -> list[list[BehaviouralPolicy]]:
    """Return the policy unchanged: the `Adapt` function of models that never adapt."""
    return [[policy]]


def payoff_against(
    game: Game,
    tree: Tree | None,
    policy: BehaviouralPolicy,
    opponent: BehaviouralPolicy,
    deals: int,
    rng: Generator,
) -> tuple[float, float]:
    """Compute a policy's payoff per game and its standard error, averaged over the policy's seats.

    The opponent sits in all other seats. With a tree the payoff is exact. Without a tree, `deals`
    deals are played from every seat.
    """
    if tree is not None:
        return exact_payoff(tree, _sigma(tree, policy), _sigma(tree, opponent)), 0.0
    _, payoffs = play_duplicate(game, policy, opponent, deals, rng)
    return float(payoffs.mean()), float(payoffs.std(ddof=1) / np.sqrt(deals))


def exact_payoff(tree: Tree, sigma: Array, opponent: Array) -> float:
    """Compute a strategy's exact payoff per game, averaged over the seats that it takes.

    `sigma` (N, A): the strategy. `opponent` (N, A): the strategy in all other seats.
    """
    total = 0.0
    for seat in range(tree.seats):
        own = (tree.observations.seat == seat)[:, None]
        total += float(best_response.expected(tree, np.where(own, sigma, opponent))[seat])
    return total / tree.seats


def best_response_payoff(tree: Tree, opponent: Array) -> float:
    """Compute the payoff per game of a best response, averaged over the seats that it takes.

    `opponent` (N, A): the strategy in all other seats.
    """
    payoffs = [best_response.best_response(tree, opponent, seat)[0] for seat in range(tree.seats)]
    return sum(payoffs) / tree.seats


def flat_metrics(rows: list[Row], unit: str) -> dict[str, float]:
    """Convert evaluation rows to payoffs by metric name, such as `random/after_3_big_blind`.

    This is the payoff against opponent `random` after 3 steps of adaptation, in big blinds. `unit`:
    the unit of the payoffs.
    """
    return {
        payoff_name(opponent_label(row["stranger"]), k, unit): payoff
        for row in rows
        for k, payoff in enumerate(row["steps"])
    }
