"""Files of stored models: weights as safetensors, game and job as JSON. They contain no code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NotRequired

import numpy as np
from pydantic import JsonValue, TypeAdapter, ValidationError

from overtrick import learners
from overtrick.core import Array, UserError
from overtrick.core.files import (
    DamagedWeightsError,
    read_weights,
    replacing_folder,
    write_text,
    write_weights,
)
from overtrick.core.json_files import OpenRecord, first_problem
from overtrick.games import registry
from overtrick.policies import model_kinds
from overtrick.policies.model_kinds import StoredWeights
from overtrick.storage import run_file_names
from overtrick.storage.old_names import translate_job

import_module("overtrick.solvers.walks.view_policy")  # registers its kind of model
for _module in walk_packages(learners.__path__, f"{learners.__name__}."):
    import_module(_module.name)  # each learner registers the kinds of its models

FORMAT = 1
WEIGHTS, CARD = "weights.safetensors", run_file_names.CARD


class FormatVersion(OpenRecord):
    """Schema of the one key that all releases write: the version of the file format."""

    format: JsonValue


class ModelGame(OpenRecord):
    """The game of a model's job, with its options."""

    name: str
    options: NotRequired[dict[str, JsonValue]]


class ModelJob(OpenRecord):
    """Keys of a model's job that are read without the trainer's schema.

    A model that no job has trained lacks all of them.
    """

    trainer: NotRequired[str]
    game: NotRequired[str | ModelGame]


class ModelCard(OpenRecord):
    """The game of a model, the job that produced it, and measurements of it."""

    game: str
    job: ModelJob
    result: NotRequired[dict[str, JsonValue]]


FORMAT_VERSION = TypeAdapter(FormatVersion)
MODEL_CARD: TypeAdapter[Any] = TypeAdapter(ModelCard)


@dataclass(frozen=True)
class Model:
    """A trained or solved model: its weights by name, its game, and the job that produced it."""

    weights: dict[str, Array]  # policy.w0, ..., critic.w0, ...; seat_0.policy.w0, ...; sigma (N, A)
    game: str
    job: dict[str, Any]  # plain data, read again by `config.job_file.parse`
    result: dict[str, Any] = field(default_factory=dict)  # known measurements of the model, if any

    @property
    def game_options(self) -> dict[str, Any]:
        """Return the game's options from the job; empty if the job has only the game's name."""
        game = self.job.get("game")
        return dict(game.get("options", {})) if isinstance(game, Mapping) else {}


def check_place(folder: Path) -> None:
    """Raise UserError unless a model can be written to a folder.

    A model that is already in the folder may be replaced, unless it belongs to a run.
    """
    if os.path.lexists(folder):
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        runs = folder.absolute().parents[:2]  # also the run's best model, in best/
        if names != {WEIGHTS, CARD} or any((run / "job.json").exists() for run in runs):
            problem = "exists and is not just a model"
            raise UserError(f"{folder} {problem}: name another folder, or remove it")
    above = next(path for path in folder.absolute().parents if os.path.exists(path))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"no model can be written to {folder}: {above} cannot be written")


def save(model: Model, folder: Path) -> None:
    """Write a model to a folder in one atomic step, in place of an earlier model."""
    with replacing_folder(folder) as new:
        write_weights(new / WEIGHTS, dict(sorted(model.weights.items())))
        card = {"format": FORMAT, "game": model.game, "job": model.job}
        if model.result:
            card["result"] = model.result
        write_text(new / CARD, json.dumps(card, indent=1, sort_keys=True) + "\n")


def load(folder: Path, game: str | None = None) -> Model:
    """Read a stored model. Weights that the file has in float16 become float32.

    `game`: the game that the model must play; None accepts any. Raises UserError if the model is
    missing or damaged, or plays another game.
    """
    card_path, weights_path = folder / CARD, folder / WEIGHTS
    try:
        content = card_path.read_bytes()
        weights = read_weights(weights_path)
    except OSError as error:
        name = error.filename or folder
        raise UserError(f"no model in {folder}: cannot read {name} ({error.strerror})") from None
    except DamagedWeightsError as error:
        raise UserError(
            f"{weights_path} is truncated or damaged ({error}); train again or restore it"
        ) from None
    try:
        found = FORMAT_VERSION.validate_json(content)["format"]
        if found != FORMAT:
            raise UserError(f"{card_path} has format {found}; this version reads {FORMAT}")
        card = MODEL_CARD.validate_json(content)
    except ValidationError as error:
        problem = first_problem(error)
        raise UserError(f"{card_path} is damaged ({problem}): restore it") from None
    if game is not None and card["game"] != game:
        raise UserError(f"the model in {folder} plays {card['game']}, not {game}")
    half = {name: each for name, each in weights.items() if each.dtype == np.float16}
    weights |= {name: each.astype(np.float32) for name, each in half.items()}
    return Model(weights, card["game"], translate_job(card["job"]), card.get("result", {}))


def is_model(folder: Path) -> bool:
    """Return True if a folder has the files of a model; False also for an impossible path."""
    return os.path.exists(folder / CARD)


def plays(weights: Mapping[str, Array]) -> bool:
    """Return True if these weights contain a policy that plays without search or opponent model."""
    return model_kinds.kind_of(StoredWeights(dict(weights), {}, "")) is not None


def policy(folder: Path, game: Any) -> Any:
    """Load the policy of a stored model for a game.

    `folder`: of the model. The policy is behavioural, unless the game has continuous actions or the
    model is a mixture of networks. A network keeps the view of the game of its training.
    Raises UserError for a model that cannot play without search or opponent model, is damaged, or
    does not fit the game.
    """
    stored = load(folder, game.name)
    weights = StoredWeights(stored.weights, stored.job, str(folder))
    build = partial(model_kinds.load_policy, weights)
    if "game" not in stored.job:  # no job has trained the model
        return build(game)
    return registry.policy_in_own_view(game, stored.game_options, build)
