"""Policies of the auction game that bid by networks, or by the rules of bidding systems.

The call network predicts the probability of each call. The value network predicts, after a call,
the distribution of the final score's difference to par, in IMPs for the caller's side (Zhang et al.
2022, Figure 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overtrick.core import Array, Observations
from overtrick.core.lazy_modules import torch
from overtrick.games.bridge.auction import features_from_observation
from overtrick.games.bridge.auction.network_inputs import (
    Inputs,
    callers_after,
    callers_in_observations,
    inputs_of_width,
    network_inputs,
)
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.system.loader import System
from overtrick.policies.forward_pass import Weights, forward, forward_numpy, masked_log_softmax
from overtrick.policies.memoryless import MemorylessPolicy

if TYPE_CHECKING:
    from torch import Tensor

MAX_IMPS = 24
IMP_CLASSES = 2 * MAX_IMPS + 1
OUTPUT_WIDTHS = {"calls": len(CALLS), "imps": IMP_CLASSES}
IMPS = np.arange(-MAX_IMPS, MAX_IMPS + 1)
FEW_ROWS = 8  # up to this many are computed by numpy, because torch takes seconds to import

CANDIDATE_THRESHOLD = 0.01
"""The lowest probability of a candidate call (Zhang et al. 2022, section 4.3)."""


class BiddingNetwork(NamedTuple):
    """A call network or a value network: its weights, activation function and precision.

    A call network predicts the next call; a value network predicts the difference to par in IMPs
    after a call.
    """

    weights: Weights
    activation: str
    bfloat16: bool = False

    @property
    def inputs(self) -> Inputs:
        """Return the kind of the network's inputs, which follows from their number."""
        kind = inputs_of_width(len(self.weights["w0"]))
        assert kind is not None, "stored_networks.check_network has checked the width"
        return kind

    def log_probs(self, features: Array | Tensor, possible: Array) -> Array:
        """Return log probabilities (R, A) float64 of the network's outputs, -inf where masked.

        features: (R, F) network inputs. possible: (R, A) bool mask of the outputs that can occur:
        the legal calls for a call network, every difference in IMPs for a value network.
        """
        few = len(features) <= FEW_ROWS and not self.bfloat16
        if few and isinstance(features, np.ndarray):
            outputs = forward_numpy(self.weights, features, self.activation)
            masked = np.where(possible, outputs.astype(np.float64), -np.inf)
            masked -= masked.max(axis=1, keepdims=True)
            return masked - np.log(np.exp(masked).sum(axis=1, keepdims=True))
        with torch.inference_mode():
            weights = {name: torch.as_tensor(value) for name, value in self.weights.items()}
            inputs = torch.as_tensor(features)
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.bfloat16):
                logits = forward(weights, inputs, self.activation).float()
            return masked_log_softmax(logits, torch.as_tensor(possible)).double().numpy(force=True)


class CandidateCall(NamedTuple):
    """A call that a NetworkBidder considers, with its probability and expected IMPs."""

    call: int
    probability: float
    imps: float | None  # expected difference to par; None without a value network


def expected_imps(
    network: BiddingNetwork, observation: Array, chosen: Array, ns: System, ew: System
) -> Array:
    """Return the difference to par (R, 38) that a value network expects after each possible call.

    The difference is in IMPs for the side of the seat to call.

    observation: (R, K). chosen: (R, 38) bool mask of the calls to evaluate; the result is NaN for
    other calls. ns, ew: the bidding systems by which the calls of each side are interpreted.
    """
    row, call = np.nonzero(chosen)
    features = features_from_observation.features_after_call(observation, row, call, ns, ew)
    callers = callers_after(callers_in_observations(observation)[row], call)
    inputs = network_inputs(features, callers, network.inputs)
    possible = np.ones((len(row), IMP_CLASSES), bool)
    values = np.full(chosen.shape, np.nan)
    values[row, call] = np.exp(network.log_probs(inputs, possible)) @ IMPS
    return values


class SystemBidder(MemorylessPolicy):
    """Policy of the auction game that bids by the rules of bidding systems.

    ns, ew: the bidding systems of North-South and East-West.
    """

    def __init__(self, ns: System, ew: System) -> None:
        self.ns, self.ew = ns, ew

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 38): 1 for the call of the caller's bidding system."""
        calls = features_from_observation.system_calls(observations.observation, self.ns, self.ew)
        return np.eye(len(CALLS))[calls]


class NetworkBidder(MemorylessPolicy):
    """Policy of the auction game that makes the candidate call with the highest expected IMPs.

    Candidates are the calls with a probability of at least CANDIDATE_THRESHOLD in the call network.
    If there are none, the most probable call is the only candidate.

    ns, ew: the bidding systems by which the calls of each side are interpreted.
    calls: the call network.
    imps: the value network. Without it, the policy makes the most probable call.
    epsilon: probability with which the policy makes a uniformly random candidate call.
    """

    def __init__(
        self, ns: System, ew: System, calls: BiddingNetwork, imps: BiddingNetwork | None = None,
        epsilon: float = 0.0,
    ) -> None:  # fmt: skip
        self.ns, self.ew = ns, ew
        self.calls, self.imps = calls, imps
        self.epsilon = epsilon

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 38): epsilon-greedy among the candidate calls."""
        likely = self.call_probabilities(observations)
        candidates = candidate_calls(likely)
        value = likely if self.imps is None else self.candidate_imps(observations, candidates)
        best = np.where(candidates, value, -np.inf).argmax(axis=1)
        probs = self.epsilon * candidates / candidates.sum(axis=1, keepdims=True)
        probs[np.arange(len(observations)), best] += 1 - self.epsilon
        return probs

    def call_probabilities(self, observations: Observations) -> Array:
        """Return the call network's probabilities (R, 38) of legal calls, 0 for illegal calls."""
        assert observations.legal is not None
        observation = observations.observation
        features = features_from_observation.features_before_call(observation, self.ns, self.ew)
        callers = callers_in_observations(observation)
        inputs = network_inputs(features, callers, self.calls.inputs)
        return np.exp(self.calls.log_probs(inputs, observations.legal))

    def candidate_imps(self, observations: Observations, candidates: Array) -> Array:
        """Return the value network's expected IMPs (R, 38) of candidates, -inf for other calls.

        If a row has only one candidate, this call gets 0 without a forward pass. candidates:
        (R, 38) bool mask of the calls to evaluate.
        """
        single = candidates & (candidates.sum(axis=1, keepdims=True) == 1)
        return np.where(single, 0.0, self._expected_imps(observations, candidates & ~single))

    def _expected_imps(self, observations: Observations, chosen: Array) -> Array:
        """Return the value network's expected IMPs (R, 38), -inf for calls outside `chosen`.

        chosen: (R, 38) bool mask of the calls to evaluate.
        """
        assert self.imps is not None
        values = expected_imps(self.imps, observations.observation, chosen, self.ns, self.ew)
        return np.where(chosen, values, -np.inf)

    def candidates(self, observations: Observations) -> list[list[CandidateCall]]:
        """Return the candidate calls at each observation, sorted by expected IMPs, best first.

        Without a value network, the calls are sorted by probability.
        """
        likely = self.call_probabilities(observations)
        chosen = candidate_calls(likely)
        imps = None if self.imps is None else self._expected_imps(observations, chosen)
        order = (-(likely if imps is None else imps)).argsort(axis=1, kind="stable")
        return [
            [
                CandidateCall(
                    k, float(likely[row, k]), None if imps is None else float(imps[row, k])
                )
                for k in order[row].tolist()
                if chosen[row, k]
            ]
            for row in range(len(observations))
        ]


def candidate_calls(likely: Array) -> Array:
    """Return the mask (R, 38) of candidate calls, given call probabilities `likely` (R, 38).

    Candidates are the calls with a probability of at least CANDIDATE_THRESHOLD. If there are none,
    the most probable call is the candidate.
    """
    return likely >= np.minimum(CANDIDATE_THRESHOLD, likely.max(axis=1, keepdims=True))


class SamplingBidder(NetworkBidder):
    """Policy of the auction game that samples calls from the call network's probabilities.

    The value network is used only for `value`, the baseline of a policy gradient.
    """

    def probs(self, observations: Observations) -> Array:
        """Return the call network's probabilities (R, 38) as action probabilities."""
        return self.call_probabilities(observations)

    def value(self, observations: Observations) -> Array:
        """Return the state values (R,): the expected difference to par, in IMPs, before the call.

        A value is the mean of the value network's expected IMPs after each candidate call (see
        NetworkBidder), weighted by the call network's probabilities.
        """
        assert self.imps is not None
        likely = self.call_probabilities(observations)
        likely *= candidate_calls(likely)
        imps = expected_imps(self.imps, observations.observation, likely > 0, self.ns, self.ew)
        row, call = np.nonzero(likely)
        total = np.bincount(row, (imps * likely)[row, call], len(observations))
        return total / likely.sum(axis=1)
