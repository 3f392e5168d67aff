"""The section of a job that says how the values of actions are learnt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from overtrick.config.job_file import Count, Positive, Section, Share
from overtrick.learners.value_based import dqn


class Values(Section):
    """How the values of actions are learnt."""

    learning_rate: Positive = Field(
        default=0.001, description="Adam's rate; 0 is reached at the end"
    )
    gradient_steps: Count = Field(default=32, description="gradient steps an iteration")
    batch_size: Count = Field(default=256, description="decisions a gradient step")
    replay_capacity: Count = Field(
        default=200_000, description="newest decisions that are remembered"
    )
    target_update_interval: Count = Field(
        default=300, description="gradient steps between renewals of the target network"
    )
    discount: Share = Field(default=1.0, description="gamma, a decision")
    loss: Literal["huber", "squared"] = Field(
        default="squared",
        description="huber is steadier, but leans to the median of what may follow, not its mean",
    )
    double_q: bool = Field(default=True, description="double Q-learning")
    monte_carlo: bool = Field(
        default=False,
        description="learn from what the rest of the game brought (Monte Carlo control) instead of "
        "the value of the next decision; refresh and double have then nothing to do",
    )
    epsilon: Share = Field(default=0.1, description="share of random actions at first")
    epsilon_end: Share = Field(default=0.0, description="the same at the end, reached linearly")

    def plan(self) -> dqn.DqnConfig:
        """The same for the learner."""
        return dqn.DqnConfig(
            self.learning_rate, self.gradient_steps, self.batch_size, self.replay_capacity,
            self.target_update_interval, self.discount, self.loss,
            self.double_q, self.monte_carlo,
        )  # fmt: skip

    def exploring(self, gone: float) -> float:
        """The share of random actions after so much of the run (0 to 1)."""
        return self.epsilon + gone * (self.epsilon_end - self.epsilon)
