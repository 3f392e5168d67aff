"""Settings of a learner's first policy network: random, or that of a stored model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import ModelPath, UnusedKeys
from overtrick.core import Game, UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.policies import recurrent_layer
from overtrick.policies.forward_pass import Weights
from overtrick.storage import locate, model_files
from overtrick.training.shared_sections import HEAD_SCALE, PolicyGradient


class StartingPolicy(PolicyGradient):
    """Settings of the policy network with which a learner begins."""

    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = (
        UnusedKeys({"initial_model": (None,)}, ("value_warmup_iterations",)),
    )

    memory: int = Field(default=0, ge=0)
    """Units of a recurrent layer that remembers the earlier observations of a game; 0: without it.
    Only for games with continuous actions, such as sumo.
    """

    initial_model: ModelPath | None = None
    """Stored run, or folder of a model, with whose policy network all learners start. None: they
    start with random weights. With `memory`, a network without memory gets one that changes
    nothing at first.
    """

    value_warmup_iterations: int = Field(default=0, ge=0)
    """First iterations of a learner, in which it trains only its critic: the stored policy is good
    already, and the critic is new.
    """

    def random_policy(self, game: Game, rng: Generator) -> Weights:
        """Draw the weights of a policy network that knows nothing yet."""
        return initial_policy_weights(game, self.hidden, rng, HEAD_SCALE, self.memory)

    def initial_policy(self, game: Game, choice: GameChoice, key: str) -> Weights | None:
        """Return the policy of `initial_model`, or None without one.

        `key`: path of the section in the job file. Raises UserError if the model is missing or
        does not fit the game or the layers.
        """
        if self.initial_model is None:
            return None
        like = self.random_policy(game, np.random.default_rng(0))
        return read_policy(choice, self.initial_model, f"{key}.initial_model", like)

    def check_starting_policy(
        self, game: Game, choice: GameChoice, key: str, iterations: int
    ) -> None:
        """Raise UserError for a memory or an initial model that does not fit, or a long warm-up.

        `key`: path of the section in the job file. `iterations`: of the whole run.
        """
        if self.memory and game.actions is not None:
            raise UserError(
                f"{key}.memory: only networks with continuous actions have a memory, and "
                f"{game.name} has discrete ones: remove the key"
            )
        if self.memory and not self.hidden:
            raise UserError(f"{key}.memory needs a hidden layer that reads it: set {key}.hidden")
        self.initial_policy(game, choice, key)
        if self.value_warmup_iterations >= iterations:
            raise UserError(
                f"{key}.value_warmup_iterations must be below stop.iterations, so that the policy "
                "learns, too"
            )


def read_policy(choice: GameChoice, model: str, key: str, like: Weights) -> Weights:
    """Return the weights of the policy network of a stored run or model.

    key: of the model in the job file, for error messages. like: weights of the learner's network,
    whose memory a stored network without memory takes over. Raises UserError if the model is
    missing or damaged, plays another game or one with other observation fields, or has no policy
    network of the same size.
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
    if not recurrent_layer.has_memory(policy):
        policy = dict(sorted({**recurrent_layer.only_memory(like), **policy}.items()))
    if _shapes(policy) != _shapes(like):
        raise UserError(
            f"{key}: the policy network in {folder} has {_sizes(policy)}, the job has "
            f"{_sizes(like)}: set `hidden` and `memory` to those of the model"
        )
    return policy


def _shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array by its name."""
    return {name: value.shape for name, value in weights.items()}


def _sizes(weights: Weights) -> str:
    """Describe the units of each hidden layer and of the memory."""
    biases = sorted(name for name in weights if name.startswith("b"))
    hidden = [len(weights[name]) for name in biases[:-1]]
    units = recurrent_layer.memory_size(weights)
    return f"the hidden layers {hidden}" + (f" and a memory of {units} units" if units else "")
