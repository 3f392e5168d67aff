"""Job of the rllib trainer: settings of RLlib's algorithms, with checks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Fraction, Job, Opponent, Positive, Section, UnusedKeys
from overtrick.core import UserError
from overtrick.evaluation import evaluate, reference_opponents
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import playable_game
from overtrick.training.shared_sections import BatchSize, Discount, EpsilonGreedy, HiddenLayers


class RllibConfig(Section):
    """Settings of all algorithms of RLlib."""

    env_steps: Count = Field(
        default=4000,
        description="minimum number of environment steps per iteration: decisions, or joint "
        "decisions where all seats act at once",
    )
    networks: Literal["one", "seat"] = Field(
        default="one", description="one network for all seats, or one for each seat"
    )
    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = Field(default=0.0003, description="Adam's learning rate")
    discount: Discount = 1.0


class RllibPpoConfig(Section):
    """Settings of PPO and APPO."""

    epochs: Count = Field(default=4, description="passes over each batch of decisions")
    minibatch_size: Count = Field(
        default=256, description="decisions per gradient step; for APPO, environment steps"
    )
    gae_lambda: Fraction = Field(
        default=0.95, description="lambda of generalised advantage estimation; unused by APPO"
    )
    clip_param: Positive = Field(
        default=0.2,
        description="probability ratios are clipped to 1 - clip_param and 1 + clip_param",
    )
    entropy_coef: float = Field(
        default=0.01,
        ge=0,
        description="entropy bonus per nat, in standard deviations of the advantages for PPO, in "
        "points for APPO",
    )
    vf_loss_coef: Positive = Field(default=0.5, description="weight of the critic's squared error")


class RllibReplayConfig(Section):
    """Settings of algorithms with a replay buffer."""

    gradient_steps: Count = Field(
        default=32,
        description="approximate number of gradient steps per iteration; for DQN it assumes games "
        "of the mean length of random play",
    )
    batch_size: BatchSize = 256
    replay_capacity: Count = Field(
        default=100_000, description="newest environment steps in the replay buffer"
    )
    learning_starts: int = Field(
        default=1000, ge=0, description="environment steps before the first gradient step"
    )


class RllibDqnConfig(EpsilonGreedy, RllibReplayConfig):
    """Settings of DQN."""

    target_update_interval: Count = Field(
        default=2000, description="environment steps between updates of the target network"
    )
    double_q: bool = Field(default=True, description="double Q-learning")


class RllibSacConfig(RllibReplayConfig):
    """Settings of SAC."""

    tau: Fraction = Field(
        default=0.005, description="soft update rate of the target networks, per gradient step"
    )
    initial_alpha: Positive = Field(
        default=1.0, description="initial entropy temperature, in points per nat; it is learnt"
    )


class RllibOpponents(Section):
    """Opponents of the learner in training, besides itself."""

    unused_keys = (
        UnusedKeys({"past_selves": (0,)}, ("snapshot_interval",)),
        UnusedKeys({"past_selves": (0,), "opponents": ((),)}, ("opponent_share",)),
    )

    past_selves: int = Field(default=0, ge=0, description="number of past selves")
    snapshot_interval: Count = Field(
        default=10, description="iterations between past selves; a new one replaces the oldest"
    )
    opponents: tuple[Opponent, ...] = Field(
        default=(), description="reference opponents or runs by name, or folders of models"
    )
    opponent_share: Fraction = Field(
        default=0.5,
        description="share of games in which a past self or opponent, drawn uniformly, sits in all "
        "seats but one; in the other games the learner plays itself",
    )


ALGORITHMS = {"rllib/PPO": "ppo", "rllib/APPO": "ppo", "rllib/DQN": "dqn", "rllib/SAC": "sac"}
"""Section of the job with the settings of each algorithm."""


class RllibJob(Job):
    """Job of a training run with an algorithm of RLlib."""

    unused_keys = (
        UnusedKeys({"algorithm": ("rllib/PPO", "rllib/APPO")}, ("dqn", "sac")),
        UnusedKeys({"algorithm": ("rllib/DQN",)}, ("ppo", "sac")),
        UnusedKeys({"algorithm": ("rllib/SAC",)}, ("dqn", "ppo")),
        UnusedKeys({"algorithm": ("rllib/APPO",)}, ("ppo.gae_lambda",)),
    )

    trainer: Literal["rllib"]
    algorithm: Literal["rllib/PPO", "rllib/APPO", "rllib/DQN", "rllib/SAC"] = Field(
        default="rllib/PPO",
        description="algorithm of RLlib: DQN for discrete actions, SAC for real vectors, PPO and "
        "APPO for both",
    )
    rllib: RllibConfig = RllibConfig()
    ppo: RllibPpoConfig = RllibPpoConfig()
    dqn: RllibDqnConfig = RllibDqnConfig()
    sac: RllibSacConfig = RllibSacConfig()
    population: RllibOpponents = RllibOpponents()
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()

    @model_validator(mode="after")
    def _minibatch_is_filled(self) -> RllibJob:
        if self.algorithm == "rllib/PPO" and self.ppo.minibatch_size > self.rllib.env_steps:
            raise ValueError("ppo.minibatch_size is more than rllib.env_steps: lower it")
        return self

    @property
    def name(self) -> str:
        """Name of the algorithm in RLlib."""
        return self.algorithm.removeprefix("rllib/")


def check_rllib_job(job: RllibJob) -> None:
    """Raise UserError for a game that the algorithm cannot play, or unknown opponents."""
    game, tree = playable_game(job.game)
    continuous = game.actions is None
    if job.name == ("DQN" if continuous else "SAC"):
        what = "moves by real vectors" if continuous else "has single actions"
        others = f"rllib/PPO, rllib/APPO or rllib/{'SAC' if continuous else 'DQN'}"
        raise UserError(f"{game.name} {what}: set algorithm to {others}")
    if continuous and job.rllib.networks == "seat":
        raise UserError(f"{game.name} looks alike from every seat: set rllib.networks to one")
    for name in job.population.opponents:
        reference_opponents.check_opponent(name, game, tree)
    evaluate.check_evaluation(job.game, job.evaluate)
