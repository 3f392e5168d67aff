"""Settings of a learner's first policy network: random, or that of a stored model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import ModelPath, UnusedKeys
from overtrick.core import Game, SeveralViews, UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.policies import recurrent_layer
from overtrick.policies.forward_pass import Weights
from overtrick.policies.model_kinds import check_network
from overtrick.storage import locate, model_files
from overtrick.training.shared_sections import HEAD_SCALE, PolicyGradient


class InitialPolicy(PolicyGradient):
    """Settings of a learner's initial policy network."""

    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = (
        UnusedKeys({"initial_model": (None,)}, ("value_warmup_iterations",)),
    )

    memory: int = Field(default=0, ge=0)
    """Units of the policy network's recurrent layer, which summarises the earlier observations of a
    game; 0: no recurrent layer. Only for games with continuous actions, such as sumo.
    """

    initial_model: ModelPath | None = None
    """Stored run, folder of a model, or champion:NAME, whose policy network a learner starts from.
    None: random weights. If `memory` is set and the stored network has no recurrent layer, one is
    added that does not change its actions at first. The model must stay in place until the run
    ends.
    """

    value_warmup_iterations: int = Field(default=0, ge=0)
    """Number of first iterations in which a learner trains only its critic, because an untrained
    critic would spoil the stored policy.
    """

    def random_policy(self, game: Game, rng: Generator) -> Weights:
        """Draw the random weights of an untrained policy network."""
        return initial_policy_weights(game, self.hidden, rng, HEAD_SCALE, self.memory)

    def initial_policy(
        self, game: Game, choice: GameChoice, key: str, rng: Generator
    ) -> Weights | None:
        """Return the policy of `initial_model`, or None without one.

        `key`: path of the section in the job file. `rng`: draws the weights of a recurrent layer,
        if the model has none. Raises UserError if the model is missing or does not fit the game or
        the layers.
        """
        if self.initial_model is None:
            return None
        like = self.random_policy(game, rng)
        return read_policy(choice, self.initial_model, f"{key}.initial_model", like)

    def check_initial_policy(
        self, game: Game, choice: GameChoice, key: str, iterations: int
    ) -> None:
        """Raise UserError unless the initial policy and its warm-up fit the game and the run.

        `key`: path of the section in the job file. `iterations`: of the whole run.
        """
        if self.memory and game.actions is not None:
            raise UserError(
                f"{key}.memory: {game.name} has discrete actions, and a recurrent layer needs "
                "continuous ones: leave it out"
            )
        if self.memory and not self.hidden:
            raise UserError(f"{key}.memory needs a hidden layer that reads it: set {key}.hidden")
        self.initial_policy(game, choice, key, np.random.default_rng(0))
        if self.value_warmup_iterations >= iterations:
            raise UserError(
                f"{key}.value_warmup_iterations must be below stop.iterations, so that the policy "
                "learns, too"
            )


def read_policy(choice: GameChoice, model: str, key: str, like: Weights) -> Weights:
    """Return the weights of the policy network of a stored run or model.

    key: of the model in the job file, for error messages. like: random weights of the learner's
    network; its recurrent layer is added to a stored network that has none. Raises UserError if the
    model is missing or damaged, plays another game or one with other observation fields or another
    view, or has no policy network of the same size.
    """
    folder = locate.model_folder(model)
    stored = model_files.load(folder, choice.name)
    game = two_seat_game(choice)[0]
    trained = two_seat_game(GameChoice(name=choice.name, options=stored.game_options))[0]
    plays = f"{key}: {folder} plays {choice.name} with options {stored.game_options}, which has "
    if isinstance(trained, SeveralViews) and trained.view != game.view:
        raise UserError(f"{plays}other network inputs: set game.view to {trained.view}")
    if game.observation_fields != trained.observation_fields:
        raise UserError(f"{plays}other observations")
    found = unprefixed("policy", stored.weights)
    if "w0" not in found:
        raise UserError(
            f"{key}: {folder} has no policy network: name a run of a trainer such as league, "
            "dagger or exploit"
        )
    check_network(found, game, f"{key}: the policy network in {folder}")
    policy = found
    if not recurrent_layer.has_memory(found):
        policy = dict(sorted({**recurrent_layer.memory_arrays(like), **found}.items()))
    if _shapes(policy) != _shapes(like):
        keys = "`hidden` and `memory`" if recurrent_layer.has_memory(found) else "`hidden`"
        raise UserError(
            f"{key}: the policy network in {folder} has {_sizes(found)}, the job has "
            f"{_sizes(like)}: set {keys} to those of the model"
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
