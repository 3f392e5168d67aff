"""Job file of the trainer `rllib`: settings of RLlib's algorithms, and their validation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import (
    Count,
    Fraction,
    Opponent,
    Positive,
    Section,
    UnusedKeys,
)
from overtrick.core import UserError
from overtrick.evaluation import evaluate, reference_opponents
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import playable_game
from overtrick.training.shared_sections import BatchSize, Discount, EpsilonGreedy, HiddenLayers


class RllibConfig(Section):
    """Settings that all algorithms of RLlib share."""

    env_steps: Count = 4000
    """Smallest number of environment steps per iteration. A step is one decision, or one joint
    decision where all seats act at once.
    """

    networks: Literal["one", "seat"] = "one"
    """Networks. one: one network for all seats. seat: one network for each seat."""

    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = 0.0003
    """Adam's learning rate."""

    discount: Discount = 1.0


class RllibPpoConfig(Section):
    """Settings of RLlib's PPO and APPO."""

    epochs: Count = 4
    """Epochs over each batch of decisions."""

    minibatch_size: Count = 256
    """Decisions per gradient step; for APPO, environment steps."""

    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation; unused by APPO."""

    clip_param: Positive = 0.2
    """Probability ratios are clipped to 1 - clip_param and 1 + clip_param."""

    entropy_coef: float = Field(default=0.01, ge=0)
    """Entropy bonus per nat: in standard deviations of the advantages for PPO, in points for APPO.
    """

    vf_loss_coef: Positive = 0.5
    """Weight of the critic's squared error."""


class RllibReplayConfig(Section):
    """Settings of RLlib's algorithms with a replay buffer: DQN and SAC."""

    gradient_steps: Count = 32
    """Approximate number of gradient steps per iteration. For DQN the estimate assumes that games
    are on average as long as in random play.
    """

    batch_size: BatchSize = 256
    replay_capacity: Count = 100_000
    """Capacity of the replay buffer, in environment steps."""

    learning_starts: int = Field(default=1000, ge=0)
    """Environment steps before the first gradient step."""


class RllibDqnConfig(EpsilonGreedy, RllibReplayConfig):
    """Settings of RLlib's DQN."""

    target_update_interval: Count = 2000
    """Environment steps between updates of the target network."""

    double_q: bool = True
    """Use double Q-learning."""


class RllibSacConfig(RllibReplayConfig):
    """Settings of RLlib's SAC."""

    tau: Fraction = 0.005
    """Soft update rate of the target networks, per gradient step."""

    initial_alpha: Positive = 1.0
    """Initial entropy temperature, in points per nat; training adapts it."""


class RllibOpponents(Section):
    """Settings of the learner's opponents in training, besides itself."""

    unused_keys = (
        UnusedKeys({"past_selves": (0,)}, ("snapshot_interval",)),
        UnusedKeys({"past_selves": (0,), "opponents": ((),)}, ("opponent_share",)),
        UnusedKeys({"opponent_share": (0,)}, ("past_selves", "snapshot_interval", "opponents")),
    )

    past_selves: int = Field(default=0, ge=0)
    """Number of past selves (snapshots of the learner) among the opponents."""

    snapshot_interval: Count = 10
    """Iterations between new past selves; each replaces the oldest."""

    opponents: tuple[Opponent, ...] = ()
    """Names of reference opponents or runs, or folders of models."""

    opponent_share: Fraction = 0.5
    """Share of games in which a past self or opponent sits in all seats but one. It is drawn
    uniformly. In the other games the learner plays against itself.
    """


def check_minibatch(section: RllibPpoConfig, env_steps: int) -> None:
    """Raise ValueError if a minibatch of PPO is larger than an iteration's decisions."""
    if section.minibatch_size > env_steps:
        raise ValueError("ppo.minibatch_size is more than rllib.env_steps: lower it")


ALGORITHMS = {"rllib/PPO": "ppo", "rllib/APPO": "ppo", "rllib/DQN": "dqn", "rllib/SAC": "sac"}
"""For each algorithm: the section of the job that holds its settings."""


class RllibJob(GpuJob):
    """Job file of the trainer `rllib`: training with an algorithm of RLlib."""

    unused_keys = (
        UnusedKeys({"algorithm": ("rllib/PPO", "rllib/APPO")}, ("dqn", "sac")),
        UnusedKeys({"algorithm": ("rllib/DQN",)}, ("ppo", "sac")),
        UnusedKeys({"algorithm": ("rllib/SAC",)}, ("dqn", "ppo")),
        UnusedKeys({"algorithm": ("rllib/APPO",)}, ("ppo.gae_lambda",)),
    )

    trainer: Literal["rllib"]
    algorithm: Literal["rllib/PPO", "rllib/APPO", "rllib/DQN", "rllib/SAC"] = "rllib/PPO"
    """Algorithm of RLlib: DQN for discrete actions, SAC for continuous, PPO and APPO for both."""

    rllib: RllibConfig = RllibConfig()
    ppo: RllibPpoConfig = RllibPpoConfig()
    dqn: RllibDqnConfig = RllibDqnConfig()
    sac: RllibSacConfig = RllibSacConfig()
    population: RllibOpponents = RllibOpponents()
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()

    @model_validator(mode="after")
    def _minibatch_is_filled(self) -> RllibJob:
        if self.algorithm == "rllib/PPO":
            check_minibatch(self.ppo, self.rllib.env_steps)
        return self

    @property
    def name(self) -> str:
        """Name of the algorithm in RLlib."""
        return self.algorithm.removeprefix("rllib/")


def check_rllib_job(job: RllibJob) -> None:
    """Raise UserError for a game that the algorithm does not support, or unknown opponents."""
    game, tree = playable_game(job.game)
    continuous = game.actions is None
    if job.name == ("DQN" if continuous else "SAC"):
        what = "has continuous actions" if continuous else "has discrete actions"
        others = f"rllib/PPO, rllib/APPO or rllib/{'SAC' if continuous else 'DQN'}"
        raise UserError(f"{game.name} {what}: set algorithm to {others}")
    if continuous and job.rllib.networks == "seat":
        raise UserError(f"{game.name} looks the same from every seat: set rllib.networks to one")
    for name in job.population.opponents:
        reference_opponents.check_opponent(name, game, tree)
    evaluate.check_evaluation(job.game, job.evaluate)
