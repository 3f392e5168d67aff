"""Job file of the trainer `meta`: its sections, and checks that involve several sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import GameChoice, GpuJob, expand_game
from overtrick.config.sections import Count, Positive, Section, UnusedKeys
from overtrick.core import Enumerable, Game, PrivilegedFeatures, UserError
from overtrick.evaluation import evaluate as evaluation
from overtrick.evaluation.evaluate import AdaptationEvaluation
from overtrick.evaluation.game_cache import check_tree, two_seat_game
from overtrick.games import registry
from overtrick.training import shared_sections as shared
from overtrick.training.adaptation.gradient_adaptation import check_estimator
from overtrick.training.adaptation.gradient_samples import ON_TREE, GradientEstimator
from overtrick.training.adaptation.opponent_population import (
    STORED_KINDS,
    Opponents,
    check_action_std_scale,
    population_of,
)


class Meta(shared.NormalisingPolicyGradient):
    """Settings of the meta-learner: MAML with an outer policy optimiser.

    The defaults are good values for Leduc. The descriptions name those of Wu et al. 2022, Table 1,
    column Leduc; in the paper entropy_coef is 0. jobs/leduc_meta_paper.yaml has all of them.
    """

    unused_keys = (
        UnusedKeys({"solver": ("trpo",)}, ("minibatches", "outer_lr", "outer_lr_end")),
        UnusedKeys({"solver": ("ppo",)}, ("fisher_subsample", "outer_kl", "outer_kl_end")),
        UnusedKeys({"objective": ("exact",)}, ("outer_games", "gae_lambda")),
        UnusedKeys({"gradient_estimator": ON_TREE}, ("gae_lambda",)),
    )

    solver: shared.PolicySolver = "trpo"
    inner_lr: Positive = 0.25
    """Learning rate of the inner steps (alpha in the paper: 0.1)."""

    inner_steps: Count = 3
    """Inner gradient steps per opponent in training (paper: 1)."""

    outer_kl: Positive = 0.035
    """KL bound of the outer step with TRPO, in nats per decision (beta in the paper: 0.01)."""

    outer_kl_end: Positive | None = 0.006
    """outer_kl at the last iteration, reached linearly; null: outer_kl is constant, as in the
    paper.
    """

    outer_lr: Positive = 0.005
    """Adam's learning rate of the outer step with PPO (beta in the paper: 0.01)."""

    outer_lr_end: Positive | None = 0.0005
    """outer_lr at the last iteration, reached linearly; null: outer_lr is constant, as in the
    paper.
    """

    weight_ema: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the moving average of weights, which is evaluated and stored; 0: use the newest
    weights, as in the paper.
    """

    fisher_subsample: Count = 4
    """TRPO estimates the curvature from every n-th opponent of an iteration; 1: from all, as in the
    paper.
    """

    minibatches: shared.Minibatches = 1
    second_order: bool = True
    """Differentiate through the inner gradient (Wu et al. 2022, eq. 7); false: its derivative
    counts as 0, as in the runs of the paper's values.
    """

    entropy_coef: shared.EntropyCoef = 0.03
    discount: shared.Discount = 0.99
    critic_learning_rate: shared.CriticLearningRate = 0.001
    tasks: Count = 30
    """Opponents per iteration (paper: 10)."""

    games: Count = 200
    """Games against each opponent before each inner step."""

    outer_games: Count | None = None
    """Games against each opponent after the last inner step; null: as many as games."""

    gradient_estimator: GradientEstimator = "aivat"
    """Estimator of the inner gradient. critic (as in the paper): sampled returns minus the critic's
    baseline; the default for continuous actions, and without a tree if
    adaptation.gradient_estimator is critic. All other estimators see all cards of a finished game.
    privileged_critic: a critic that sees all cards, too; the default without a tree. aivat (needs a
    tree): sampled decisions without the variance of cards and own actions. opponent_model (needs a
    tree): all decisions, against the estimated opponent.
    """

    objective: Literal["sampled", "exact"] = "exact"
    """Outer objective: from sampled games (as in the paper, and the default without a tree), or
    exact on the tree. Inner steps always use sampled games.
    """


class Adaptation(Section):
    """Settings of the trained model's adaptation to an opponent in evaluation."""

    gradient_estimator: GradientEstimator | None = "opponent_model"
    """Gradient estimator of adaptation; null: that of meta.gradient_estimator, as in the paper; the
    default for continuous actions. Here opponent_model needs no tree: without a tree it simulates
    games against a network that clones the opponent.
    """

    gradient_steps: Count | None = None
    """Gradient steps from the games of one adaptation step; null: 20 with opponent_model, and 1
    with other estimators, as in the paper. More than 1 needs opponent_model, whose gradient can be
    recomputed without new games.
    """

    policy: Literal["network", "best_response"] = "network"
    """Policy that is evaluated after each step. network: the adapted network. best_response: the
    best response to the estimated opponent within evaluate.exploitability_bound, while the network
    plays the games.
    """


class MetaEvaluation(AdaptationEvaluation):
    """Settings of the evaluation of a meta-model that adapts to held-out opponents."""

    learning_rate: Positive = 0.25
    """Learning rate of the gradient steps of adaptation (paper: 0.1)."""


class MetaJob(GpuJob):
    """Job file of the trainer `meta`: meta-learning of a model that adapts to opponents.

    The defaults of three keys depend on the game.
    """

    unused_keys = (
        UnusedKeys(
            {"meta.gradient_estimator": ON_TREE, "adaptation.gradient_estimator": (None, *ON_TREE)},
            ("meta.discount", "meta.critic_learning_rate"),
        ),
    )

    trainer: Literal["meta"]
    meta: Meta = Meta()
    population: Opponents = Opponents()
    adaptation: Adaptation = Adaptation()
    evaluate: MetaEvaluation = MetaEvaluation()

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults_of_the_game(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        sections = {"meta": content.get("meta", {}), "adaptation": content.get("adaptation", {})}
        if not all(isinstance(section, Mapping) for section in sections.values()):
            return content
        for name, defaults in _defaults_of_the_game(content.get("game"), **sections).items():
            sections[name] = {**defaults, **sections[name]}
        return {**content, **sections}

    @model_validator(mode="after")
    def _tasks_are_enough(self) -> MetaJob:
        tasks, immigrants, minibatches = (
            self.meta.tasks, self.population.immigrants or 0, self.meta.minibatches,
        )  # fmt: skip
        if immigrants > tasks:
            raise ValueError(f"population.immigrants {immigrants} is more than meta.tasks {tasks}")
        if tasks % minibatches:
            raise ValueError(f"meta.minibatches {minibatches} does not divide meta.tasks {tasks}")
        return self

    @model_validator(mode="after")
    def _gradient_steps_fit_the_estimator(self) -> MetaJob:
        steps, estimator = self.test_gradient_steps, self.test_estimator
        if steps > 1 and estimator != "opponent_model":
            raise ValueError(
                f"adaptation.gradient_steps {steps} needs adaptation.gradient_estimator "
                f"opponent_model, not {estimator}: other gradients need new games"
            )
        return self

    @model_validator(mode="after")
    def _one_critic_fits_training_and_adaptation(self) -> MetaJob:
        kind, test = self.meta.gradient_estimator, self.adaptation.gradient_estimator
        privileged = "privileged_critic"
        if (test == privileged) > (kind == privileged) or (test, kind) == ("critic", privileged):
            raise ValueError(
                f"adaptation.gradient_estimator {test} needs a critic that "
                f"meta.gradient_estimator {kind} does not train"
            )
        return self

    @model_validator(mode="after")
    def _normalised_inputs_need_a_critic(self) -> MetaJob:
        meta = self.meta
        if meta.normalise and (meta.gradient_estimator, meta.objective, self.test_estimator) != (
            "critic", "sampled", "critic",
        ):  # fmt: skip
            raise ValueError(
                "meta.normalise needs meta.gradient_estimator critic, meta.objective sampled and "
                "adaptation.gradient_estimator critic or null"
            )
        return self

    @property
    def test_estimator(self) -> GradientEstimator:
        """Estimator of the policy gradient with which evaluation adapts the model to an opponent.

        It is the estimator of section `adaptation` or, if that is None, of section `meta`.
        """
        return self.adaptation.gradient_estimator or self.meta.gradient_estimator

    @property
    def test_gradient_steps(self) -> int:
        """Number of gradient steps of an adaptation step in evaluation."""
        given = self.adaptation.gradient_steps
        return given or (20 if self.test_estimator == "opponent_model" else 1)


def _defaults_of_the_game(
    named: Any, meta: Mapping[str, Any], adaptation: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return by section the defaults that differ in games without a tree or without actions to
    count.

    `named`: the game, as in the job file. `meta`, `adaptation`: the sections, as in the job file.
    """
    if {"objective", "gradient_estimator"} <= {*meta} and "gradient_estimator" in adaptation:
        return {}
    try:
        choice = GameChoice.model_validate(expand_game(named))
        game = registry.make(choice.name, **choice.options)
    except ValueError:  # the validation of the whole job reports it
        return {}
    if isinstance(game, Enumerable):
        return {}
    discrete = not isinstance(game, Game) or game.actions is not None
    privileged = isinstance(game, PrivilegedFeatures)
    own_view = not discrete or not privileged or adaptation.get("gradient_estimator") == "critic"
    estimator = "critic" if own_view else "privileged_critic"
    sampled = {"objective": "sampled", "gradient_estimator": estimator}
    return {"meta": sampled, "adaptation": {} if discrete else {"gradient_estimator": None}}


def check_job(job: MetaJob) -> None:
    """Raise UserError for unknown opponents, or settings that the game does not support."""
    game, tree = two_seat_game(job.game)
    section = job.meta
    if section.objective == "exact":
        check_tree("meta.objective", "exact", game, tree, "set sampled")
    if section.gradient_estimator == "opponent_model":
        remedy = "set it as adaptation.gradient_estimator"
        check_tree("meta.gradient_estimator", "opponent_model", game, tree, remedy)
    if job.population.kind in STORED_KINDS:
        population_of(job.game, job.population)
    check_action_std_scale("population.action_std_scale", job.population.action_std_scale, game)
    check_estimator("meta.gradient_estimator", section.gradient_estimator, game, tree)
    estimator = job.adaptation.gradient_estimator
    check_estimator("adaptation.gradient_estimator", estimator, game, tree)
    if job.adaptation.policy == "best_response":
        if job.evaluate.exploitability_bound is None:
            raise UserError(
                "adaptation.policy: best_response needs a bound: set evaluate.exploitability_bound"
            )
        if job.test_estimator not in ON_TREE:
            raise UserError(
                "adaptation.policy: best_response needs adaptation.gradient_estimator aivat or "
                "opponent_model"
            )
    evaluation.check_evaluation(job.game, job.evaluate)
