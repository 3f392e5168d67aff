"""Stored models as methods of a board. Each budget starts again from the stored weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.comparison.comparison_job import evaluation_game_of
from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.core import Array, BehaviouralPolicy, UserError
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.storage import locate, model_files
from overtrick.training.adaptation.in_context import (
    InContextJob,
    InContextModel,
    InContextTrainer,
)
from overtrick.training.held_out_trainer import HeldOutTrainer
from overtrick.training.registry import JOBS, TRAINERS

Measure = Callable[[BehaviouralPolicy], tuple[float, float | None]]
"""Function from a policy to its payoff against an opponent and its exploitability, if known."""


def check_models(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a model is missing, has no trainer that can evaluate it, or another game.

    Raises UserError also if a budget has fewer games than a model has steps of adaptation.
    """
    for name in dict.fromkeys(method.model_of(seed) for seed in job.seeds):
        trained, _ = _load_model(job, name)
        trainer: Any = TRAINERS[trained.trainer].trainer
        steps = trainer.evaluation_section(trained).steps
        if trainer.adapts() and steps > job.budgets[0]:
            raise UserError(
                f"budgets: {job.budgets[0]} games are too few for {steps} adaptation steps"
            )


def check_in_context(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a model is missing or not a network trained in this setting."""
    model = in_context_model(job, method)
    if method.told != (model.told,):
        raise UserError(
            f"model {method.model} was told {model.told} in training: set told to [{model.told}]"
        )


def in_context_model(job: BoardJob, method: BoardMethod) -> InContextModel:
    """Return a method's stored network. Raises UserError if its trainer is not in_context."""
    assert method.model is not None
    trained, weights = _load_model(job, method.model)
    if not isinstance(trained, InContextJob):
        raise UserError(
            f"model {method.model} is of trainer {trained.trainer}, not in_context: "
            "set the player to model"
        )
    return InContextTrainer.rebuild_model(trained, weights)


def model_matches(
    job: BoardJob,
    method: BoardMethod,
    opponent: BoardOpponent | BucketOpponent,
    opponent_policy: BehaviouralPolicy,
    measure: Measure,
) -> list[dict[str, Any]]:
    """Adapt a model to an opponent, as its trainer does; return a `MatchRecord` for each seed.

    The games of a budget are divided among the steps of the model's job, in random seats; a
    remainder is not played. A model that never adapts plays its stored policy. `opponent_policy`:
    the policy that the opponent plays in all games.
    """
    matches = []
    for seed in job.seeds:
        trained, weights = _load_model(job, method.model_of(seed))
        trainer: Any = TRAINERS[trained.trainer].trainer
        section: HeldOutEvaluation = trainer.evaluation_section(trained)
        rngs = board_evaluation.match_generator(opponent, seed).spawn(len(job.budgets))
        records = []
        for games, rng in zip(job.budgets, rngs, strict=True):
            if trainer.adapts():
                policy = trainer.adapt_model(
                    trained, weights, opponent_policy, rng, games=games // section.steps
                )[-1]
            else:
                policy = trainer.rebuild_model(trained, weights)
            payoff, gap = measure(policy)
            records.append(
                {"games": games, "payoff": payoff, "exploitability": gap, "online": None}
            )
        matches.append({"seed": seed, "checkpoints": records})
    return matches


def _load_model(job: BoardJob, name: str) -> tuple[Job, Mapping[str, Array]]:
    """Return the job and the weights of a stored model.

    Raises UserError if it is missing, is for another game, or cannot adapt to an opponent.
    """
    folder = locate.model_folder(name)
    model = model_files.load(folder, job.game.name)
    trained = job_file.parse_stored(model.job, JOBS, str(folder / model_files.CARD))
    trainer: Any = TRAINERS[trained.trainer].trainer
    if not issubclass(trainer, HeldOutTrainer):
        raise UserError(f"model {name}: trainer {trained.trainer} cannot adapt it to an opponent")
    if evaluation_game_of(trained.game) != evaluation_game_of(job.game):
        raise UserError(f"model {name} plays {job.game.name} with other options")
    return trained, model.weights
