"""Q-learning with a network, a replay memory and a target network (Mnih et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from overtrick.core import Array, Observations, Trajectories
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.advantages import discounted_returns
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based.replay_buffer import (
    Columns,
    RingBuffer,
    observation_columns,
    observations_of,
)
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, forward, tensors
from overtrick.policies.memoryless import MemorylessPolicy

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"huber": huber_loss, "squared": mse_loss}

Values = Callable[[Mapping[str, Tensor], Tensor, Mapping[str, Tensor]], Tensor]
"""Weights, features (R, F) and notes (R, ...) to what each action is worth: (R, A) points."""


def mlp_values(
    params: Mapping[str, Tensor], features: Tensor, notes: Mapping[str, Tensor]
) -> Tensor:
    """A multilayer perceptron with a value for each action."""
    return forward(params, features)


@dataclass(frozen=True)
class DqnConfig:
    """How values are learnt."""

    rate: float  # Adam's
    steps: int  # gradient steps a batch of games
    rows: int  # decisions a gradient step
    room: int  # newest decisions that are remembered
    refresh: int  # gradient steps after which the target network is renewed
    gamma: float  # discount, a decision
    loss: Literal["huber", "squared"]  # huber: linear from one point on
    double: bool  # the network chooses what the target network values (van Hasselt et al. 2016)
    whole: bool = False  # learn from what the rest of the game brought, not from the next value


class Dqn:
    """Learns what each action is worth if the best ones follow.

    The target of a decision is its reward until the seat's next decision, plus gamma times the
    target network's value of the best legal action there; nothing follows the last one. With
    plan.whole it is the discounted sum of all rewards to come (Monte Carlo control). notes:
    the notes of a batch that `values` wants to see; a decision and its successor share them.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        plan: DqnConfig,
        values: Values = mlp_values,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.features = features
        self.plan = plan
        self.values = values
        self.notes = notes
        self.adam = Adam(weights, plan.rate)
        self.target: Params = tensors(weights)
        self.memory = RingBuffer(plan.room)
        self.learnt = 0  # gradient steps so far

    def policy(self, explore: bool = True, epsilon: float = 0.1) -> GreedyPolicy:
        """The best action by the values; with probability epsilon any, if it explores."""
        return GreedyPolicy(self.features, self.weights(), epsilon if explore else 0.0)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Remember the decisions of whole games, then learn from what is remembered."""
        reward, last = batch.reward, batch.last
        if self.plan.whole:
            reward, last = discounted_returns(batch, self.plan.gamma), np.ones_like(last)
        self.memory.add(
            {
                **observation_columns(batch),
                **{name: batch.extras[name] for name in self.notes},
                "action": batch.action.astype(np.int64),
                "reward": reward.astype(np.float32),
                "last": last,
            },
            rng,
        )
        plan, loss = self.plan, 0.0
        if not len(self.memory):
            return {}
        places = self.memory.draw(plan.steps * plan.rows, rng)
        now = self._inputs(self.memory.at(places))
        # games are whole, so what follows a decision that is not the last lies right behind it;
        # behind the last one may lie nothing yet, and no game knows what to make of that
        behind = np.where(now["last"].numpy(), places, (places + 1) % plan.room)
        ahead = {} if self.plan.whole else self._inputs(self.memory.at(behind))
        for k in range(0, len(places), plan.rows):
            if self.learnt % plan.refresh == 0:
                self.target = {n: v.detach().clone() for n, v in self.adam.params.items()}
            part = slice(k, k + plan.rows)
            here, after = ({n: v[part] for n, v in each.items()} for each in (now, ahead))
            goal = self._goal(here, after)
            taken = self._values(self.adam.params, here).gather(1, here["action"][:, None])[:, 0]
            error = LOSSES[plan.loss](taken, goal)
            self.adam.descend(error)
            loss += float(error.detach())
            self.learnt += 1
        return {"value_loss": loss / plan.steps}

    def _goal(self, here: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> Tensor:
        """(R,) what each decision has turned out to be worth."""
        if self.plan.whole:
            return here["reward"]
        with torch.no_grad():
            worth = self._values(self.target, after)
            judge = self._values(self.adam.params, after) if self.plan.double else worth
            best = judge.masked_fill(~after["legal"], -torch.inf).argmax(dim=1, keepdim=True)
            ahead = worth.gather(1, best)[:, 0]
            return here["reward"] + self.plan.gamma * torch.where(here["last"], 0.0, ahead)

    def _values(self, params: Mapping[str, Tensor], rows: Mapping[str, Tensor]) -> Tensor:
        return self.values(params, rows["features"], rows)

    def _inputs(self, rows: Columns) -> dict[str, Tensor]:
        """Remembered rows as tensors, with their features in place of the facts."""
        wanted = ("legal", "action", "reward", "last", *self.notes)
        columns = {name: torch.from_numpy(rows[name]) for name in wanted}
        return {**columns, "features": torch.from_numpy(self.features(observations_of(rows)))}

    def weights(self) -> Weights:
        return to_arrays(self.adam.params)

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("values", self.adam.state()),
            **prefixed("target", to_arrays(self.target)),
            **prefixed("memory", self.memory.state()),
            "learnt": np.array(self.learnt),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.adam.load(unprefixed("values", state))
        self.target = tensors(unprefixed("target", state))
        self.memory.load(unprefixed("memory", state))
        self.learnt = int(state["learnt"])


class GreedyPolicy(MemorylessPolicy):
    """The legal action of the highest value; with probability epsilon (0 to 1) any legal one.

    notes: what `values` wants to see beside the features, the same at every decision.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        epsilon: float = 0.0,
        values: Values = mlp_values,
        notes: Mapping[str, Array] | None = None,
    ) -> None:
        self.features = features
        self.weights = weights
        self.epsilon = epsilon
        self.values = values
        self.notes = {} if notes is None else notes

    def probs(self, observations: Observations) -> Array:
        assert observations.legal is not None
        notes = {
            name: torch.from_numpy(note).expand(len(observations), *note.shape)
            for name, note in self.notes.items()
        }
        with torch.inference_mode():
            features = torch.from_numpy(self.features(observations))
            worth = self.values(tensors(self.weights), features, notes).double().numpy()
        return epsilon_greedy(worth, observations.legal, self.epsilon)


def epsilon_greedy(values: Array, legal: Array, epsilon: float) -> Array:
    """(R, A) probabilities: the best legal action by (R, A) values, with probability epsilon any.

    The first of equals is the best.
    """
    best = np.where(legal, values, -np.inf).argmax(axis=1)
    probs = epsilon * legal / legal.sum(axis=1, keepdims=True)
    probs[np.arange(len(best)), best] += 1 - epsilon
    return probs
