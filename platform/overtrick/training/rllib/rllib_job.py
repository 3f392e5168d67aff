"""What a job of RLlib's algorithms says, and what it may not."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Fraction, Job, Opponent, Positive, Section, UnusedKeys
from overtrick.core import UserError
from overtrick.evaluation import evaluate, reference_opponents
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import playable_game
from overtrick.training.shared_sections import EpsilonGreedy, HiddenLayers


class RllibConfig(Section):
    """What every algorithm of RLlib is told."""

    env_steps: Count = Field(
        default=4000,
        description="turns of games an iteration, at least: decisions, or moves that all make at "
        "once",
    )
    networks: Literal["one", "seat"] = Field(
        default="one", description="one network that plays all seats, or one for each seat"
    )
    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = Field(default=0.0003, description="Adam's learning rate")
    discount: Fraction = Field(default=1.0, description="gamma, a decision")


class RllibPpoConfig(Section):
    """What PPO and APPO are told."""

    epochs: Count = Field(default=4, description="times that each decision is learnt from")
    minibatch_size: Count = Field(
        default=256, description="decisions a gradient step; of APPO, turns"
    )
    gae_lambda: Fraction = Field(
        default=0.95, description="lambda of PPO's advantages; APPO has none"
    )
    clip_param: Positive = Field(default=0.2, description="ratios count from 1 - clip to 1 + clip")
    entropy_coef: float = Field(
        default=0.01,
        ge=0,
        description="bonus a nat: of PPO in standard deviations of an advantage, of APPO in points",
    )
    vf_loss_coef: Positive = Field(default=0.5, description="weight of the critic's squared error")


class RllibReplayConfig(Section):
    """What algorithms are told that remember games."""

    gradient_steps: Count = Field(
        default=32,
        description="gradient steps an iteration, about: DQN takes them after so many games, by "
        "the length of games of random play",
    )
    batch_size: Count = Field(default=256, description="decisions a gradient step")
    replay_capacity: Count = Field(
        default=100_000, description="newest turns of games that are remembered"
    )
    learning_starts: int = Field(default=1000, ge=0, description="turns before anything is learnt")


class RllibDqnConfig(EpsilonGreedy, RllibReplayConfig):
    """What DQN is told."""

    target_update_interval: Count = Field(
        default=2000, description="turns between renewals of the target network"
    )
    double_q: bool = Field(default=True, description="double Q-learning")


class RllibSacConfig(RllibReplayConfig):
    """What SAC is told."""

    tau: Fraction = Field(
        default=0.005, description="share by which a step moves the target networks"
    )
    initial_alpha: Positive = Field(
        default=1.0, description="points a nat of entropy is worth at first; it is learnt"
    )


class RllibOpponents(Section):
    """Who sits with the learner, beside itself."""

    unused_keys = (
        UnusedKeys({"past_selves": (0,)}, ("snapshot_interval",)),
        UnusedKeys({"past_selves": (0,), "opponents": ((),)}, ("opponent_share",)),
    )

    past_selves: int = Field(default=0, ge=0, description="past selves that are kept")
    snapshot_interval: Count = Field(
        default=10, description="iterations after which the oldest past self gives way to today's"
    )
    opponents: tuple[Opponent, ...] = Field(
        default=(), description="opponents or runs by name, or folders of models"
    )
    opponent_share: Fraction = Field(
        default=0.5,
        description="share of games in which one of them, drawn, sits in all seats but one; in the "
        "rest the learner plays itself",
    )


ALGORITHMS = {"rllib/PPO": "ppo", "rllib/APPO": "ppo", "rllib/DQN": "dqn", "rllib/SAC": "sac"}
"""Each algorithm and the section that is its own."""


class RllibJob(Job):
    """Everything that an algorithm of RLlib needs."""

    unused_keys = (
        UnusedKeys({"algorithm": ("rllib/PPO", "rllib/APPO")}, ("dqn", "sac")),
        UnusedKeys({"algorithm": ("rllib/DQN",)}, ("ppo", "sac")),
        UnusedKeys({"algorithm": ("rllib/SAC",)}, ("dqn", "ppo")),
        UnusedKeys({"algorithm": ("rllib/APPO",)}, ("ppo.gae_lambda",)),
    )

    trainer: Literal["rllib"]
    algorithm: Literal["rllib/PPO", "rllib/APPO", "rllib/DQN", "rllib/SAC"] = Field(
        default="rllib/PPO",
        description="DQN chooses among actions, SAC moves by real vectors, PPO and APPO do either",
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
            raise ValueError("ppo.minibatch_size is more than rllib.env_steps brings: lower it")
        return self

    @property
    def name(self) -> str:
        """What RLlib calls the algorithm."""
        return self.algorithm.removeprefix("rllib/")


def check_rllib_job(job: RllibJob) -> None:
    """Raise UserError for a game that is not played or that the algorithm cannot play, or opponents
    that do not exist."""
    game, tree = playable_game(job.game)
    moves = game.actions is None
    if job.name == ("DQN" if moves else "SAC"):
        what = "moves by real vectors" if moves else "has single actions"
        others = f"rllib/PPO, rllib/APPO or rllib/{'SAC' if moves else 'DQN'}"
        raise UserError(f"{game.name} {what}: set algorithm to {others}")
    if moves and job.rllib.networks == "seat":
        raise UserError(f"{game.name} looks alike from every seat: set rllib.networks to one")
    for name in job.population.opponents:
        reference_opponents.check_opponent(name, game, tree)
    evaluate.check_evaluation(job.game, job.evaluate)
