"""The bidder: one network says which calls its system would make, the other what each would bring
(Zhang et al. 2022, Figure 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from overtrick.core import Array, Observations
from overtrick.games.bridge.auction import features_from_observation
from overtrick.games.bridge.auction.features import WIDTH
from overtrick.games.bridge.auction.observation import OBS_CALLERS, OBS_SEAT
from overtrick.games.bridge.auction.packed_features import unpack
from overtrick.games.bridge.auction_rules import BIDS, CALLS
from overtrick.games.bridge.system.loader import System
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax
from overtrick.policies.memoryless import MemorylessPolicy

MAX_IMPS = 24  # IMPs
IMP_CLASSES = 2 * MAX_IMPS + 1
OUTPUT_WIDTHS = {"calls": len(CALLS), "imps": IMP_CLASSES}
IMPS = np.arange(-MAX_IMPS, MAX_IMPS + 1)
SITUATION_SIZES = (BIDS + 1, 5, 3)
"""How the auction itself is told: the last bid or none, by whom or nobody, how often doubled."""

CANDIDATE_THRESHOLD = 0.01
"""Calls that are less likely than this are no candidates (Zhang et al. 2022, section 4.3)."""


class BiddingNetwork(NamedTuple):
    """Weights, and what one must know to use them."""

    weights: Weights
    activation: str
    bfloat16: bool = False

    @property
    def sees_auction(self) -> bool:
        """Does it see the auction beside the features?"""
        return len(self.weights["w0"]) == input_width(with_auction=True)

    def log_probs(self, features: Array, possible: Array) -> Array:
        """(R, A) float64 for features (R, F), -inf where impossible."""
        with torch.inference_mode():
            weights = {name: torch.from_numpy(value) for name, value in self.weights.items()}
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
                said = forward(weights, torch.from_numpy(features), self.activation).float()
            return masked_log_softmax(said, torch.from_numpy(possible)).double().numpy()


class CandidateCall(NamedTuple):
    """A call that a bidder thought of."""

    call: int
    probability: float
    imps: float | None  # expected, against par; None where nothing values calls


def input_width(with_auction: bool) -> int:
    """How many numbers a network sees."""
    return WIDTH + (sum(SITUATION_SIZES) if with_auction else 0)


def unpack_inputs(bits: Array, situation: Array | None = None) -> Array:
    """(R, F) float32 features from their bits (R, 161), and of situations (R, 3) if they are
    given, as `auction.situations` has them."""
    found = np.zeros((len(bits), input_width(situation is not None)), np.float32)
    unpack(bits, found)
    if situation is not None:
        _tell(situation, found)
    return found


def append_situation(features: Array, situation: Array) -> Array:
    """(R, F) features with situations (R, 3) behind them."""
    found = np.pad(features, ((0, 0), (0, sum(SITUATION_SIZES))))
    _tell(situation, found)
    return found


def _tell(situation: Array, found: Array) -> None:
    """Write situations behind the features."""
    row, first = np.arange(len(situation)), WIDTH
    for value, width in zip(situation.T.astype(np.int64), SITUATION_SIZES, strict=True):
        found[row, first + value % width] = 1  # -1 is the last
        first += width


def auction_situations(seen: Array) -> Array:
    """(R, 3) the same as `auction.situations`, by the facts of a turn (R, K)."""
    made = seen[:, OBS_CALLERS:].reshape(len(seen), 3, BIDS)
    some = made[:, 0] >= 0
    last = np.where(some.any(axis=1), BIDS - 1 - some[:, ::-1].argmax(axis=1), -1)
    row = np.arange(len(seen))
    by = np.where(last >= 0, (made[row, 0, last] - seen[:, OBS_SEAT]) % 4, -1)
    doubled = (made[row, 1:, last] >= 0).sum(axis=1) * (last >= 0)
    return np.stack([last, by, doubled], axis=1)


def situations_after(situation: Array, made: Array) -> Array:
    """(R, 3) situations once calls (R,) are made, as those who made them see them."""
    bids = (made < BIDS)[:, None]
    after = np.where(bids, np.stack([made, 0 * made, 0 * made], axis=1), situation)
    after[made > BIDS, 2] = made[made > BIDS] - BIDS  # doubled, redoubled
    return after


class SystemBidder(MemorylessPolicy):
    """Bids by the rules of systems, one for each side."""

    def __init__(self, ns: System, ew: System) -> None:
        self.ns, self.ew = ns, ew

    def probs(self, observations: Observations) -> Array:
        found = np.zeros((len(observations), len(CALLS)))
        found[
            np.arange(len(observations)),
            features_from_observation.system_calls(observations.observation, self.ns, self.ew),
        ] = 1
        return found


class NetworkBidder(MemorylessPolicy):
    """Of the calls that are likely, the one that is expected to bring most; without a network of
    values, the likeliest. ns, ew: how the calls of both sides are understood.

    epsilon: with this probability any candidate.
    """

    def __init__(
        self, ns: System, ew: System, calls: BiddingNetwork, imps: BiddingNetwork | None = None,
        epsilon: float = 0.0,
    ) -> None:  # fmt: skip
        self.ns, self.ew = ns, ew
        self.calls, self.imps = calls, imps
        self.epsilon = epsilon

    def probs(self, observations: Observations) -> Array:
        likely = self.call_probabilities(observations)
        candidates = likely >= np.minimum(CANDIDATE_THRESHOLD, likely.max(axis=1, keepdims=True))
        worth = likely if self.imps is None else self.candidate_imps(observations, candidates)
        best = np.where(candidates, worth, -np.inf).argmax(axis=1)
        probs = self.epsilon * candidates / candidates.sum(axis=1, keepdims=True)
        probs[np.arange(len(observations)), best] += 1 - self.epsilon
        return probs

    def call_probabilities(self, observations: Observations) -> Array:
        """(R, 38) how likely each call is."""
        assert observations.legal is not None
        features = features_from_observation.features_before_call(
            observations.observation, self.ns, self.ew
        )
        if self.calls.sees_auction:
            features = append_situation(features, auction_situations(observations.observation))
        found: Array = np.exp(self.calls.log_probs(features, observations.legal))
        return found

    def candidate_imps(self, observations: Observations, candidates: Array) -> Array:
        """(R, 38) the IMPs that are expected of each candidate (R, 38); -inf of the others."""
        assert self.imps is not None
        row, made = np.nonzero(candidates)
        found = np.full(candidates.shape, -np.inf)
        several = candidates.sum(axis=1)[row] > 1  # nothing is to be decided where there is one
        found[row[~several], made[~several]] = 0.0
        row, made = row[several], made[several]
        found[row, made] = expected_imps(
            self.imps, observations.observation, row, made, self.ns, self.ew
        )
        return found

    def candidates(self, observations: Observations) -> list[list[CandidateCall]]:
        """What it thinks of at each row of a turn, the best first."""
        likely = self.call_probabilities(observations)
        chosen = likely >= np.minimum(CANDIDATE_THRESHOLD, likely.max(axis=1, keepdims=True))
        worth = None if self.imps is None else np.full(chosen.shape, -np.inf)
        if self.imps is not None and worth is not None:
            row, made = np.nonzero(chosen)
            worth[row, made] = expected_imps(
                self.imps, observations.observation, row, made, self.ns, self.ew
            )
        rank = likely if worth is None else worth
        return [
            [
                CandidateCall(
                    k, float(likely[row, k]), None if worth is None else float(worth[row, k])
                )
                for k in sorted(np.flatnonzero(chosen[row]).tolist(), key=lambda k: -rank[row, k])
            ]
            for row in range(len(observations))
        ]


def expected_imps(
    imps: BiddingNetwork, seen: Array, row: Array, made: Array, ns: System, ew: System
) -> Array:
    """(D,) the IMPs that a network of values expects of calls (D,) at rows (D,) of some facts."""
    features = features_from_observation.features_after_call(seen, row, made, ns, ew)
    if imps.sees_auction:
        features = append_situation(features, situations_after(auction_situations(seen)[row], made))
    possible = np.ones((len(row), IMP_CLASSES), bool)
    found: Array = np.exp(imps.log_probs(features, possible)) @ IMPS
    return found


class SamplingBidder(NetworkBidder):
    """Makes every call as often as the network of calls says; that of values only judges."""

    def probs(self, observations: Observations) -> Array:
        return self.call_probabilities(observations)

    def value(self, observations: Observations) -> Array:
        """(R,) the IMPs that are expected before the call: the mean of what the candidates are
        worth, each as likely as it is."""
        assert self.imps is not None
        likely = self.call_probabilities(observations)
        likely *= likely >= np.minimum(CANDIDATE_THRESHOLD, likely.max(axis=1, keepdims=True))
        row, made = np.nonzero(likely)
        worth = (
            expected_imps(self.imps, observations.observation, row, made, self.ns, self.ew)
            * likely[row, made]
        )
        return np.bincount(row, worth, len(observations)) / likely.sum(axis=1)
