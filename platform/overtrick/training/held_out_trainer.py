"""Base classes of trainers whose model is evaluated against held-out opponents.

A subclass defines two functions: `rebuild_model` rebuilds the model from stored weights, and
`adapt` adapts the model to an opponent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.config.sections import validated
from overtrick.core import Array, BehaviouralPolicy
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import evaluate as evaluation
from overtrick.evaluation.evaluate import HeldOutEvaluation, without_adaptation
from overtrick.evaluation.exact_by_walks import evaluate_players
from overtrick.evaluation.game_cache import playable_game
from overtrick.games import registry
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive import best_response
from overtrick.solvers.walks.make_walk import is_evaluated_by_walks
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JobT = TypeVar("JobT", bound=Job)


class HeldOutTrainer(BaseTrainer[JobT]):
    """Base class of trainers whose model adapts to held-out opponents in evaluation.

    `game` and `tree` are the job's game and its tree; the tree is None if the game is too large for
    one. `unit` is the unit of payoffs in evaluation.
    """

    adapt: ClassVar[staticmethod[..., Any]]
    """Function of type `Adapt`: adapts to one opponent and returns the policies of each step."""

    def __init__(self, job: JobT, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, self.tree = playable_game(job.game)
        self.unit: str = registry.evaluation_game(self.game).unit

    @property
    def has_exact_exploitability(self) -> bool:
        """True if exploitability is exact: by a tree, or by walks over the game."""
        return self.tree is not None or is_evaluated_by_walks(self.game)

    @property
    def walkers(self) -> WorkerPool | None:
        """The workers that walk over a game evaluated by walks; None if the job has none."""
        return self.pool if self.job.workers else None

    @staticmethod
    @abstractmethod
    def rebuild_model(job: Any, weights: Mapping[str, Array]) -> Any:
        """Rebuild the model from stored weights, in the form that function `adapt` takes.

        The type depends on the trainer. It can be a policy, the weights of a network, or several
        networks with settings. Raises UserError if the weights do not fit the job.
        """

    def evaluate(self) -> Metrics:
        """Return the payoffs against all held-out opponents after each step of adaptation.

        The first payoff against an opponent is from before adaptation.
        """
        return evaluation.flat_metrics(self.rows(), self.unit)

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the learning curve, and the payoffs during adaptation to each held-out opponent."""
        return figures.adaptation_figures(history, rows, self.unit)

    @staticmethod
    def validate(job: Any) -> None:
        """Raise UserError for an unsuitable game or unknown opponents.

        A game that can be solved but not played is unsuitable. If `evaluate.exploitability_bound`
        is set, the game must be a zero-sum game of two seats, small enough for a tree.
        """
        evaluation.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def evaluation_section(job: Any) -> HeldOutEvaluation:
        """Return the settings of the evaluation: held-out opponents and numbers of games."""
        return job.evaluate

    @classmethod
    def adapts(cls) -> bool:
        """Return True if the trainer's models adapt to an opponent."""
        return cls.adapt is not without_adaptation

    @staticmethod
    def adaptation_note(job: Any) -> str:
        """Return a sentence on the cards that adaptation sees; empty if the trainer states none."""
        return ""

    @classmethod
    def adapt_model(
        cls,
        job: Any,
        weights: Mapping[str, Array],
        opponent: BehaviouralPolicy,
        rng: Generator,
        steps: int | None = None,
        games: int | None = None,
    ) -> list[BehaviouralPolicy]:
        """Adapt a stored model to an opponent; return its policies before and after each step.

        `steps`, `games`: number of steps, and of games in each; None: those of the job. The
        policies keep the bound on exploitability of the job, if it has one. Raises UserError.
        """
        section = cls.evaluation_section(job)
        # the first of two repetitions is returned; an evaluation needs two for its standard error
        asked = {"repeats": 2, "steps": steps, "games": games}
        given = {key: value for key, value in asked.items() if value is not None}
        section = validated(type(section), {**section.model_dump(), **given}, "adapt", stored=True)
        adapted = cls.adapt(rng, cls.rebuild_model(job, weights), section, job.game, opponent)
        if section.exploitability_bound is not None:
            adapted = [evaluation.bound_exploitability(job.game, each, section) for each in adapted]
        return [policies[0] for policies in adapted]

    @classmethod
    def evaluate_model(
        cls, job: Any, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate a stored model against each held-out opponent, before and after adaptation.

        Returns a row for each opponent.
        """
        model, section = cls.rebuild_model(job, weights), cls.evaluation_section(job)
        return evaluation.evaluate(job.game, cls.adapt, model, section, pool, rng)

    @staticmethod
    def with_best_responses(job: Any, rows: Rows, pool: WorkerPool | None) -> Rows:
        """Add the exact payoffs of best responses to rows, if the game is evaluated by walks."""
        return evaluation.with_best_responses(job.game, rows, pool)


class UnadaptedTrainer(HeldOutTrainer[JobT]):
    """Base class of trainers of a policy for all seats that does not adapt in evaluation.

    Evaluations during training also measure the policy's exploitability, if it can be computed
    exactly. In a subclass, `rebuild_model` rebuilds the policy from stored weights.
    """

    adapt = staticmethod(without_adaptation)
    policy_name: ClassVar[str]
    """Name of the policy in the metric of its exploitability."""

    def evaluate(self) -> Metrics:
        """Return the policy's payoffs against held-out opponents, and its exploitability.

        Exploitability is measured only if `has_exact_exploitability`.
        """
        return self._exploitability() | super().evaluate()

    def _exploitability(self) -> Metrics:
        if not self.has_exact_exploitability:
            return {}
        policies = [self.rebuild_model(self.job, self.model())] * self.game.seats
        name = metric_names.gap_name(self.policy_name, self.game.unit)
        if self.tree is None:
            found = evaluate_players(self.game, policies, pool=self.walkers)
            return {name: found.exploitability}
        sigma = best_response.sigma_of(self.tree, policies)
        return {name: best_response.exploitability(self.tree, sigma)}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the learning curve and, if it is measured, the exploitability by iteration."""
        return figures.learning_figures(
            history, self.policy_name, self.unit, self.game.unit, self.has_exact_exploitability
        )
