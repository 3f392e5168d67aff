"""What a job of the meta trainer says."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Job, Positive, Section, Share
from overtrick.core import UserError
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import Evaluate
from overtrick.evaluation.game_cache import two_seats
from overtrick.training.adaptation.held_out_evaluation import check_estimator
from overtrick.training.adaptation.opponent_population import Opponents, check_spread
from overtrick.training.adaptation.rollouts import ON_TREE, GradientEstimator


class Meta(Section):
    """The meta-model and how it learns (Table 1, column Leduc)."""

    solver: Literal["trpo", "ppo"] = Field(default="trpo", description="the outer solver")
    hidden: tuple[Count, ...] = Field(default=(64, 64), description="units of each ReLU layer")
    inner_lr: Positive = Field(default=0.1, description="alpha: size of an inner gradient step")
    inner_steps: Count = Field(default=1, description="inner gradient steps in training")
    outer_kl: Positive = Field(
        default=0.01, description="beta with solver trpo: its KL bound in nats a decision"
    )
    outer_kl_end: Positive | None = Field(
        default=None, description="outer_kl at the last iteration, reached linearly; none: constant"
    )
    outer_lr: Positive = Field(default=0.01, description="beta with solver ppo: Adam's rate")
    outer_lr_end: Positive | None = Field(
        default=None, description="outer_lr at the last iteration, reached linearly; none: constant"
    )
    weight_ema: float = Field(
        default=0.0, ge=0, lt=1,
        description="share of the past in the moving average of weights that is judged and kept",
    )  # fmt: skip
    fisher_subsample: Count = Field(
        default=1, description="of so many tasks one tells TRPO the curvature; 1: all of them do"
    )
    minibatches: Count = Field(
        default=1, description="in every pass PPO steps once on each of so many parts of the tasks"
    )
    second_order: bool = Field(
        default=False, description="differentiate through the inner gradient (eq. 7)"
    )
    discount: Share = Field(default=0.99, description="gamma, a decision")
    gae_lambda: Share = Field(default=0.95, description="lambda of the outer advantages")
    entropy_coef: float = Field(default=0.0, ge=0, description="bonus in points a nat")
    critic_learning_rate: Positive = Field(default=0.001, description="Adam's rate of the baseline")
    tasks: Count = Field(default=10, description="opponents that are met each iteration")
    games: Count = Field(default=200, description="games against an opponent before each step")
    outer_games: Count | None = Field(
        default=None,
        description="games against each opponent after the last inner step; none: as games",
    )
    gradient_estimator: GradientEstimator = Field(
        default="critic",
        description="how the inner gradient is estimated. critic: sampled returns minus the "
        "critic's baseline. The others see all cards of a finished game. privileged_critic: the "
        "baseline sees them too. On a tree, aivat: sampled decisions without the variance of cards "
        "and of own actions; opponent_model: every decision, against the estimated opponent",
    )
    objective: Literal["sampled", "exact"] = Field(
        default="sampled",
        description="outer objective from sampled games, or exact on the tree; the inner steps "
        "always use sampled games",
    )


class Adaptation(Section):
    """How the trained model adapts to an opponent when it is evaluated."""

    gradient_estimator: GradientEstimator | None = Field(
        default=None,
        description="as meta.gradient_estimator, which it is by default. Here opponent_model needs "
        "no tree: without one it takes simulated games against a network that imitates the "
        "opponent",
    )
    gradient_steps: Count = Field(
        default=1,
        description="gradient steps on the games of each step; more than 1 needs "
        "gradient_estimator opponent_model, whose gradient can be recomputed without new games",
    )
    policy: Literal["network", "best_response"] = Field(
        default="network",
        description="the policy evaluated after a step. network: the adapted network. "
        "best_response: the best response to the estimated opponent, within "
        "evaluate.exploitability_bound; the network plays the games",
    )


class MetaJob(Job):
    """Everything a meta-training run needs."""

    trainer: Literal["meta"]
    meta: Meta = Meta()
    population: Opponents = Opponents()
    adaptation: Adaptation = Adaptation()
    evaluate: Evaluate = Evaluate()

    @model_validator(mode="after")
    def _tasks_hold_the_immigrants(self) -> MetaJob:
        if self.population.immigrants > self.meta.tasks:
            raise ValueError(
                f"population.immigrants {self.population.immigrants} is more than "
                f"meta.tasks {self.meta.tasks}"
            )
        return self

    @model_validator(mode="after")
    def _parts_are_tasks_of_ppo(self) -> MetaJob:
        if self.meta.tasks % self.meta.minibatches:
            raise ValueError(
                f"meta.minibatches {self.meta.minibatches} does not divide meta.tasks "
                f"{self.meta.tasks}"
            )
        idle = {
            "trpo": ("minibatches", "outer_lr", "outer_lr_end"),
            "ppo": ("fisher_subsample", "outer_kl", "outer_kl_end"),
        }
        if given := self.meta.given(idle[self.meta.solver]):
            raise ValueError(
                f"meta.solver {self.meta.solver} has no use for meta.{given}: leave it out"
            )
        return self

    @model_validator(mode="after")
    def _games_are_played(self) -> MetaJob:
        if self.meta.objective == "exact" and self.meta.outer_games is not None:
            raise ValueError(
                "meta.objective exact has no use for meta.outer_games: leave that out, or set "
                "sampled"
            )
        return self

    @model_validator(mode="after")
    def _returns_are_sampled(self) -> MetaJob:
        """Refuse a discount and a lambda where the tree tells what a decision deserves."""
        plan, kind = self.meta, self.meta.gradient_estimator
        on_tree, test = kind in ON_TREE, self.test_estimator in ON_TREE
        if on_tree and test and plan.given(["discount"]):
            raise ValueError(
                f"meta.gradient_estimator {kind} has no use for meta.discount: leave that out, "
                "or set "
                "critic"
            )
        if (on_tree or plan.objective == "exact") and plan.given(["gae_lambda"]):
            why = f"gradient_estimator {kind}" if on_tree else "objective exact"
            raise ValueError(
                f"meta.{why} has no use for meta.gae_lambda: leave that out, or set "
                + ("critic" if on_tree else "sampled")
            )
        return self

    @model_validator(mode="after")
    def _only_an_opponent_model_gives_new_gradients(self) -> MetaJob:
        steps, estimator = self.adaptation.gradient_steps, self.test_estimator
        if steps > 1 and estimator != "opponent_model":
            raise ValueError(
                f"adaptation.gradient_steps {steps} needs adaptation.gradient_estimator "
                f"opponent_model, not {estimator}: other gradients need new games"
            )
        return self

    @model_validator(mode="after")
    def _one_critic_serves_both(self) -> MetaJob:
        kind, test = self.meta.gradient_estimator, self.adaptation.gradient_estimator
        privileged = "privileged_critic"
        if (test == privileged) > (kind == privileged) or (test, kind) == ("critic", privileged):
            raise ValueError(
                f"adaptation.gradient_estimator {test} needs another critic than "
                f"meta.gradient_estimator {kind} trains"
            )
        return self

    @property
    def test_estimator(self) -> GradientEstimator:
        """The gradient estimator of adaptation during evaluation."""
        return self.adaptation.gradient_estimator or self.meta.gradient_estimator


def check(job: MetaJob) -> None:
    """Raise UserError for a game that two do not play, opponents that do not exist, or values that
    need a tree where there is none."""
    game, tree = two_seats(job.game)
    if tree is None and job.meta.objective != "sampled":
        raise UserError(
            f"meta.objective: {job.meta.objective} needs a tree, and {game.name} is too large "
            "for one: "
            "set sampled"
        )
    if tree is None and job.meta.gradient_estimator == "opponent_model":
        raise UserError(
            f"meta.gradient_estimator: opponent_model needs a tree, and {game.name} is too large "
            "for one: set it as adaptation.gradient_estimator"
        )
    check_spread("population.action_std_scale", job.population.action_std_scale, game)
    check_estimator("meta.gradient_estimator", job.meta.gradient_estimator, game, tree)
    estimator = job.adaptation.gradient_estimator
    check_estimator("adaptation.gradient_estimator", estimator, game, tree)
    if job.adaptation.policy == "best_response":
        if job.evaluate.exploitability_bound is None:
            raise UserError(
                "adaptation.policy: best_response keeps a bound: set evaluate.exploitability_bound"
            )
        if job.test_estimator not in ON_TREE:
            raise UserError(
                "adaptation.policy: best_response needs adaptation.gradient_estimator aivat or "
                "opponent_model"
            )
    evaluate_page.check(job.game, job.evaluate)
