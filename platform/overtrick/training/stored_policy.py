"""Read the policy network of a stored model as the initial weights of a learner."""

from __future__ import annotations

from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.policies.forward_pass import Weights
from overtrick.storage import locate, model_files


def read_policy(choice: GameChoice, model: str, key: str, like: Weights) -> Weights:
    """Return the weights of the policy network of a stored run or model.

    key: of the model in the job file, for error messages. like: weights of the learner's network.
    Raises UserError if the model is missing or damaged, plays another game or one with other
    observation fields, or has no policy network of the same size.
    """
    folder = locate.model_folder(model)
    stored = model_files.load(folder, choice.name)
    fields = [
        two_seat_game(each)[0].observation_fields
        for each in (choice, GameChoice(name=choice.name, options=stored.game_options))
    ]
    if fields[0] != fields[1]:
        raise UserError(
            f"{key}: {folder} plays {choice.name} with options {stored.game_options}, which has "
            "other observations"
        )
    policy = unprefixed("policy", stored.weights)
    if "w0" not in policy:
        raise UserError(
            f"{key}: {folder} has no policy network: name a run of a trainer such as league, "
            "dagger or exploit"
        )
    if _shapes(policy) != _shapes(like):
        raise UserError(
            f"{key}: the policy network in {folder} has the hidden layers {_hidden(policy)}, the "
            f"job has {_hidden(like)}: set `hidden` to those of the model"
        )
    return policy


def _shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array by its name."""
    return {name: value.shape for name, value in weights.items()}


def _hidden(weights: Weights) -> list[int]:
    """Return the units of each hidden layer."""
    biases = sorted(name for name in weights if name.startswith("b"))
    return [len(weights[name]) for name in biases[:-1]]
