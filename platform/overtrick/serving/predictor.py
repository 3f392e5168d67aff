"""Compute a stored model's named outputs from raw observations with named columns."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import Array, Game, Observations, UserError, require_action_probabilities
from overtrick.core.checkpoints import unprefixed
from overtrick.games import observation_validation, registry
from overtrick.games.spec import ModelAnswers
from overtrick.policies.forward_pass import LOG_STD, forward, tensors
from overtrick.policies.recurrent_layer import has_memory
from overtrick.storage import locate, model_files


class Predictor:
    """A stored model that computes outputs from single observations, without a game in progress.

    `observation_fields`: the names of the input columns. Input columns are integers in games with
    discrete actions, and floats in games with continuous actions. `outputs`: the names of the
    output columns. `kind`: the meaning of the outputs:

    - probabilities: the probability of each action
    - moves: mean and standard deviation of a Gaussian distribution of continuous actions. The
      output columns of an action component NAME are NAME and NAME_std.
    - imps: the expected IMPs of each legal call, NaN for illegal calls

    Raises UserError for a model that needs a search or an opponent model. Also raises UserError if
    the model's game has no observations, because it is only defined as a tree for solvers.
    """

    def __init__(self, folder: Path) -> None:
        stored = model_files.load(folder)
        self.game: Any = registry.make(stored.game, **stored.game_options)
        if not isinstance(self.game, Game):
            raise UserError(f"the model in {folder} is of {stored.game}, which has no observations")
        self.observation_fields = self.game.observation_fields
        spec = registry.spec_of(self.game)
        answers = spec.model_answers(stored.weights, stored.job, str(folder))
        answers = answers or _policy_answers(stored, folder, self.game)
        self.kind, self.outputs, self._answer = answers

    def predict(self, observations: Array) -> Array:
        """Return the model's outputs for R observations, (R, len(`outputs`)) float64.

        `observations`: (R, K), one column for each of the K `observation_fields`. Raises UserError
        for observations that cannot occur in the game.
        """
        return self._answer(observation_validation.validated_observations(self.game, observations))

    def example(self) -> Array:
        """Return example inputs (R, K): observations at the first decisions of two random games."""
        deals = self.game.deal(2, np.random.default_rng(0))
        return self.game.observe(self.game.start(deals)).observation


def mlflow_description(folder: Path) -> dict[str, Any]:
    """Describe a stored model for MLflow: its signature, an input example and metadata.

    Keys of the result:

    - `facts`: input schema of the MLflow signature, the MLflow type of each input column.
    - `said`: output schema of the MLflow signature, the MLflow type of each output column.
    - `example`: MLflow input example, the values of each input column.
    - `about`: MLflow metadata of the model, such as the game and the trainer.

    Raises UserError if no Predictor can be made of the model.
    """
    stored, predictor = model_files.load(folder), Predictor(folder)
    fields = predictor.observation_fields
    input_type = "double" if predictor.game.actions is None else "long"
    return {
        "facts": dict.fromkeys(fields, input_type),
        "said": dict.fromkeys(predictor.outputs, "double"),
        "example": dict(zip(fields, predictor.example().T.tolist(), strict=True)),
        "about": {
            "format": model_files.FORMAT,
            "version": version("overtrick"),
            "game": stored.game,
            "trainer": stored.job.get("trainer", "none"),
            "answers": predictor.kind,
            "sha256": locate.digests(folder),
        },
    }


def _policy_answers(stored: model_files.Model, folder: Path, game: Any) -> ModelAnswers:
    """Build the function that computes the outputs of a stored model that is a policy.

    The outputs are action probabilities, or mean and standard deviation of continuous actions.
    """
    names = tuple(game.action_names)
    policy = model_files.policy(folder, game)
    if game.actions is not None:
        behavioural = require_action_probabilities(policy, f"the model in {folder}")
        return ModelAnswers("probabilities", names, behavioural.probs)
    weights = unprefixed("policy", stored.weights)
    if has_memory(weights):
        raise UserError(
            f"the policy network in {folder} has a recurrent layer: it can play whole games, but "
            "it cannot answer single observations"
        )
    deviation = np.exp(weights.pop(LOG_STD).astype(np.float64))
    layers = tensors(weights)

    def moves(observations: Observations) -> Array:
        features = tensors({"features": game.features(observations)})["features"]
        mean = forward(layers, features).double().numpy(force=True)
        return np.hstack([mean, np.broadcast_to(deviation, mean.shape)])

    return ModelAnswers("moves", (*names, *(f"{name}_std" for name in names)), moves)
