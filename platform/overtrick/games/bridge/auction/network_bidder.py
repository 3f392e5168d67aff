"""Policies of the auction game that bid by networks, or by the rules of bidding systems.

The call network predicts the probability of each call. The value network predicts the distribution
of the difference to par, in IMPs, after a call (Zhang et al. 2022, Figure 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from overtrick.core import Array, Observations
from overtrick.games.bridge.auction import features_from_observation
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.features import WIDTH
from overtrick.games.bridge.auction.packed_features import unpack
from overtrick.games.bridge.auction_rules import BIDS, CALLS
from overtrick.games.bridge.system.loader import System
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax
from overtrick.policies.memoryless import MemorylessPolicy

MAX_IMPS = 24
IMP_CLASSES = 2 * MAX_IMPS + 1
OUTPUT_WIDTHS = {"calls": len(CALLS), "imps": IMP_CLASSES}
IMPS = np.arange(-MAX_IMPS, MAX_IMPS + 1)
SITUATION_SIZES = (BIDS + 1, 5, 3)
"""Widths of the one-hot columns of a situation: the last bid, or none; the seat of the last bid
relative to the seat to call, or none; undoubled, doubled or redoubled."""

CANDIDATE_THRESHOLD = 0.01
"""The lowest probability of a candidate call (Zhang et al. 2022, section 4.3)."""


class BiddingNetwork(NamedTuple):
    """Weights of a call network or a value network, and its settings for inference."""

    weights: Weights
    activation: str
    bfloat16: bool = False

    @property
    def sees_auction(self) -> bool:
        """Return whether the inputs end with the columns that describe the last bid.

        `auction_situations` returns these columns, which follow the features.
        """
        return len(self.weights["w0"]) == input_width(with_auction=True)

    def log_probs(self, features: Array, possible: Array) -> Array:
        """Return log probabilities (R, A) float64 of the outputs, -inf where not possible.

        features: (R, F) network inputs. possible: (R, A) bool, the legal calls of a call network,
        or all outputs (differences in IMPs) of a value network.
        """
        with torch.inference_mode():
            weights = {name: torch.from_numpy(value) for name, value in self.weights.items()}
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
                logits = forward(weights, torch.from_numpy(features), self.activation).float()
            return masked_log_softmax(logits, torch.from_numpy(possible)).double().numpy()


class CandidateCall(NamedTuple):
    """A call that a bidder considers."""

    call: int
    probability: float
    imps: float | None  # expected difference to par; None without a value network


def input_width(with_auction: bool) -> int:
    """Return the number F of inputs of a network.

    The inputs are the auction features. If `with_auction` is true, the situation from
    `auction_situations` follows as one-hot columns.
    """
    return WIDTH + (sum(SITUATION_SIZES) if with_auction else 0)


def unpack_inputs(bits: Array, situation: Array | None = None) -> Array:
    """Return the network inputs (R, F) float32 from packed features (R, 161).

    situation: (R, 3) from `auction_situations`, appended to the features as one-hot columns; None
    appends nothing.
    """
    inputs = np.zeros((len(bits), input_width(situation is not None)), np.float32)
    unpack(bits, inputs)
    if situation is not None:
        _write_situation(situation, inputs)
    return inputs


def append_situation(features: Array, situation: Array) -> Array:
    """Append situations (R, 3) to features (R, 1284) as one-hot columns; return inputs (R, F)."""
    inputs = np.pad(features, ((0, 0), (0, sum(SITUATION_SIZES))))
    _write_situation(situation, inputs)
    return inputs


def _write_situation(situation: Array, inputs: Array) -> None:
    """Write situations (R, 3) as one-hot columns after the features in `inputs` (R, F)."""
    row, first = np.arange(len(situation)), WIDTH
    for value, width in zip(situation.T.astype(np.int64), SITUATION_SIZES, strict=True):
        inputs[row, first + value % width] = 1  # -1 is the last column
        first += width


def auction_situations(observation: Array) -> Array:
    """Return the situations (R, 3) of the auctions in observations (R, K).

    The situation decides which calls are legal. Its columns (see
    `auction_rules.bidding_situations`) are:

    0: the last bid, or -1 before any bid
    1: the seat of the last bid relative to the seat to call, or -1
    2: 0 if the last bid is undoubled, 1 if doubled, 2 if redoubled
    """
    callers = observation[:, obs.CALLERS :].reshape(len(observation), 3, BIDS)
    bid = callers[:, 0] >= 0
    last = np.where(bid.any(axis=1), BIDS - 1 - bid[:, ::-1].argmax(axis=1), -1)
    row = np.arange(len(observation))
    by = np.where(last >= 0, (callers[row, 0, last] - observation[:, obs.SEAT]) % 4, -1)
    doubled = (callers[row, 1:, last] >= 0).sum(axis=1) * (last >= 0)
    return np.stack([last, by, doubled], axis=1)


def situations_after(situation: Array, call: Array) -> Array:
    """Return the situations (R, 3) after one more call in each auction.

    situation: (R, 3) from `auction_situations`, before the call. call: (R,). Seats in the result
    are relative to the seat that made the call.
    """
    bids = (call < BIDS)[:, None]
    after = np.where(bids, np.stack([call, 0 * call, 0 * call], axis=1), situation)
    after[call > BIDS, 2] = call[call > BIDS] - BIDS  # doubled, redoubled
    return after


def expected_imps(
    network: BiddingNetwork, observation: Array, chosen: Array, ns: System, ew: System
) -> Array:
    """Return a value network's expected IMPs (R, 38) of the chosen calls, NaN for other calls.

    observation: (R, K). chosen: (R, 38) bool. ns, ew: the bidding systems by which the calls of
    each side are interpreted.
    """
    row, call = np.nonzero(chosen)
    features = features_from_observation.features_after_call(observation, row, call, ns, ew)
    if network.sees_auction:
        situation = situations_after(auction_situations(observation)[row], call)
        features = append_situation(features, situation)
    possible = np.ones((len(row), IMP_CLASSES), bool)
    values = np.full(chosen.shape, np.nan)
    values[row, call] = np.exp(network.log_probs(features, possible)) @ IMPS
    return values


class SystemBidder(MemorylessPolicy):
    """Policy of the auction game that bids by rules: one bidding system for each side."""

    def __init__(self, ns: System, ew: System) -> None:
        self.ns, self.ew = ns, ew

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 38): 1 for the call of the side's bidding system."""
        calls = features_from_observation.system_calls(observations.observation, self.ns, self.ew)
        return np.eye(len(CALLS))[calls]


class NetworkBidder(MemorylessPolicy):
    """Policy of the auction game that makes the candidate call with the highest expected IMPs.

    Candidates are the calls whose probability is at least CANDIDATE_THRESHOLD.

    ns, ew: the bidding systems by which the calls of each side are interpreted.
    calls: the call network.
    imps: the value network. Without it, the policy makes the most probable call.
    epsilon: probability of a uniformly random candidate instead of the best.
    """

    def __init__(
        self, ns: System, ew: System, calls: BiddingNetwork, imps: BiddingNetwork | None = None,
        epsilon: float = 0.0,
    ) -> None:  # fmt: skip
        self.ns, self.ew = ns, ew
        self.calls, self.imps = calls, imps
        self.epsilon = epsilon

    def probs(self, observations: Observations) -> Array:
        """Return the policy's action probabilities (R, 38)."""
        likely = self.call_probabilities(observations)
        candidates = _candidates(likely)
        value = likely if self.imps is None else self.candidate_imps(observations, candidates)
        best = np.where(candidates, value, -np.inf).argmax(axis=1)
        probs = self.epsilon * candidates / candidates.sum(axis=1, keepdims=True)
        probs[np.arange(len(observations)), best] += 1 - self.epsilon
        return probs

    def call_probabilities(self, observations: Observations) -> Array:
        """Return the call network's probabilities (R, 38) of the legal calls."""
        assert observations.legal is not None
        observation = observations.observation
        features = features_from_observation.features_before_call(observation, self.ns, self.ew)
        if self.calls.sees_auction:
            features = append_situation(features, auction_situations(observation))
        return np.exp(self.calls.log_probs(features, observations.legal))

    def candidate_imps(self, observations: Observations, candidates: Array) -> Array:
        """Return the expected IMPs (R, 38) of candidate calls, -inf for other calls.

        candidates: (R, 38) bool. In a row with a single candidate, the candidate gets 0 without a
        forward pass.
        """
        single = candidates & (candidates.sum(axis=1, keepdims=True) == 1)
        return np.where(single, 0.0, self._expected_imps(observations, candidates & ~single))

    def _expected_imps(self, observations: Observations, chosen: Array) -> Array:
        """Return the expected IMPs (R, 38) of the calls in the mask `chosen` (R, 38), else -inf."""
        assert self.imps is not None
        values = expected_imps(self.imps, observations.observation, chosen, self.ns, self.ew)
        return np.where(chosen, values, -np.inf)

    def candidates(self, observations: Observations) -> list[list[CandidateCall]]:
        """Return the candidate calls of each row, best call first."""
        likely = self.call_probabilities(observations)
        chosen = _candidates(likely)
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


def _candidates(likely: Array) -> Array:
    """Return the mask of candidate calls (R, 38) from call probabilities `likely` (R, 38).

    Candidates are the calls with a probability of at least CANDIDATE_THRESHOLD, or the most
    probable call if there are none.
    """
    return likely >= np.minimum(CANDIDATE_THRESHOLD, likely.max(axis=1, keepdims=True))


class SamplingBidder(NetworkBidder):
    """Policy of the auction game that samples calls from the call network's probabilities.

    The value network is used only for `value`, the baseline of a policy gradient.
    """

    def probs(self, observations: Observations) -> Array:
        """Return the call network's probabilities (R, 38) of the calls."""
        return self.call_probabilities(observations)

    def value(self, observations: Observations) -> Array:
        """Return the expected IMPs (R,) before the call.

        It is the mean of the candidates' expected IMPs, weighted by their probabilities.
        """
        assert self.imps is not None
        likely = self.call_probabilities(observations)
        likely *= _candidates(likely)
        imps = expected_imps(self.imps, observations.observation, likely > 0, self.ns, self.ew)
        row, call = np.nonzero(likely)
        total = np.bincount(row, (imps * likely)[row, call], len(observations))
        return total / likely.sum(axis=1)
