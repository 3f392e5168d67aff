"""What a job of the meta trainer says."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Job, Positive, Section, Share
from overtrick.core import UserError
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import Evaluate
from overtrick.evaluation.game_cache import two_seats
from overtrick.training.adaptation.held_out_evaluation import check_credit
from overtrick.training.adaptation.opponent_population import Opponents, check_spread
from overtrick.training.adaptation.rollouts import ON_TREE, Credit


class Meta(Section):
    """The meta-model and how it learns (Table 1, column Leduc)."""

    solver: Literal["trpo", "ppo"] = Field(default="trpo", description="the outer solver")
    hidden: tuple[Count, ...] = Field(default=(64, 64), description="units of each ReLU layer")
    inner_step: Positive = Field(default=0.1, description="alpha: size of an inner gradient step")
    inner_steps: Count = Field(default=1, description="inner gradient steps in training")
    outer_step: Positive = Field(
        default=0.01, description="beta: KL bound of TRPO in nats a decision; Adam's rate of PPO"
    )
    outer_step_end: Positive | None = Field(
        default=None, description="beta at the last iteration, reached linearly; none: constant"
    )
    average: float = Field(
        default=0.0, ge=0, lt=1,
        description="share of the past in the moving average of weights that is judged and kept",
    )  # fmt: skip
    thinned: Count = Field(
        default=1, description="of so many tasks one tells TRPO the curvature; 1: all of them do"
    )
    parts: Count = Field(
        default=1, description="in every pass PPO steps once on each of so many parts of the tasks"
    )
    second_order: bool = Field(
        default=False, description="differentiate through the inner gradient (eq. 7)"
    )
    discount: Share = Field(default=0.99, description="gamma, a decision")
    gae: Share = Field(default=0.95, description="lambda of the outer advantages")
    entropy: float = Field(default=0.0, ge=0, description="bonus in points a nat")
    critic_rate: Positive = Field(default=0.001, description="Adam's rate of the baseline")
    tasks: Count = Field(default=10, description="opponents that are met each iteration")
    games: Count = Field(default=200, description="games against an opponent before each step")
    outer_games: Count | None = Field(
        default=None,
        description="games against each opponent after the last inner step; none: as games",
    )
    credit: Credit = Field(
        default="critic",
        description="what the inner gradient is made of. critic: sampled returns, less baselines. "
        "The others look at all cards of a finished game. hindsight: baselines that know them. On "
        "a tree, aivat: sampled decisions without the luck of cards and of own draws; model: every "
        "decision, against the opponent that the games so far have shown",
    )
    test_credit: Credit | None = Field(
        default=None,
        description="the same at test; none: credit. There model needs no tree: without one it "
        "learns from games against a network that imitates the opponent",
    )
    test_updates: Count = Field(
        default=1,
        description="gradient steps on the games of each step at test; more than 1 needs "
        "test_credit model, whose gradient can be taken anew without new games",
    )
    test_play: Literal["network", "response"] = Field(
        default="network",
        description="what is judged after a step at test. network: what has adapted. response: "
        "what wins the most within evaluate.safe against the opponent that the games have shown; "
        "the network plays those games",
    )
    values: Literal["sampled", "exact"] = Field(
        default="sampled",
        description="outer objective from sampled games, or exact on the tree; the inner steps "
        "always use sampled games",
    )


class MetaJob(Job):
    """Everything a meta-training run needs."""

    trainer: Literal["meta"]
    meta: Meta = Meta()
    population: Opponents = Opponents()
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
        if self.meta.tasks % self.meta.parts:
            raise ValueError(
                f"meta.parts {self.meta.parts} does not divide meta.tasks {self.meta.tasks}"
            )
        idle = {"trpo": ("parts", self.meta.parts), "ppo": ("thinned", self.meta.thinned)}
        key, value = idle[self.meta.solver]
        if value != 1:
            raise ValueError(
                f"meta.solver {self.meta.solver} has no use for meta.{key}: leave it out"
            )
        return self

    @model_validator(mode="after")
    def _games_are_played(self) -> MetaJob:
        if self.meta.values == "exact" and self.meta.outer_games is not None:
            raise ValueError(
                "meta.values exact has no use for meta.outer_games: leave that out, or set sampled"
            )
        return self

    @model_validator(mode="after")
    def _returns_are_sampled(self) -> MetaJob:
        """Refuse a discount and a lambda where the tree tells what a decision deserves."""
        plan = self.meta
        on_tree, test = plan.credit in ON_TREE, (plan.test_credit or plan.credit) in ON_TREE
        if on_tree and test and plan.given(["discount"]):
            raise ValueError(
                f"meta.credit {plan.credit} has no use for meta.discount: leave that out, or set "
                "critic"
            )
        if (on_tree or plan.values == "exact") and plan.given(["gae"]):
            why = f"credit {plan.credit}" if on_tree else "values exact"
            raise ValueError(
                f"meta.{why} has no use for meta.gae: leave that out, or set "
                + ("critic" if on_tree else "sampled")
            )
        return self

    @model_validator(mode="after")
    def _only_a_model_can_be_asked_again(self) -> MetaJob:
        credit = self.meta.test_credit or self.meta.credit
        if self.meta.test_updates > 1 and credit != "model":
            raise ValueError(
                f"meta.test_updates {self.meta.test_updates} needs meta.test_credit model, not "
                f"{credit}: other gradients need new games"
            )
        return self

    @model_validator(mode="after")
    def _one_critic_serves_both(self) -> MetaJob:
        kind, test = self.meta.credit, self.meta.test_credit
        if (test == "hindsight") > (kind == "hindsight") or (test, kind) == ("critic", "hindsight"):
            raise ValueError(
                f"meta.test_credit {test} needs another critic than meta.credit {kind} trains"
            )
        return self


def check(job: MetaJob) -> None:
    """Raise UserError for a game that two do not play, opponents that do not exist, or values that
    need a tree where there is none."""
    game, tree = two_seats(job.game)
    if tree is None and job.meta.values != "sampled":
        raise UserError(
            f"meta.values: {job.meta.values} needs a tree, and {game.name} is too large for one: "
            "set sampled"
        )
    if tree is None and job.meta.credit == "model":
        raise UserError(
            f"meta.credit: model needs a tree, and {game.name} is too large for one: set it as "
            "meta.test_credit"
        )
    check_spread("population.spread", job.population.spread, game)
    for key in ("credit", "test_credit"):
        check_credit(f"meta.{key}", getattr(job.meta, key), game, tree)
    if job.meta.test_play == "response":
        if job.evaluate.safe is None:
            raise UserError("meta.test_play: response keeps a bound: set evaluate.safe")
        if (job.meta.test_credit or job.meta.credit) not in ON_TREE:
            raise UserError("meta.test_play: response needs meta.test_credit aivat or model")
    evaluate_page.check(job.game, job.evaluate)
