"""Sample deals that agree with a player's observations, weighted by the calls and cards seen.

Source: importance sampling as in Ginsberg 2001, "GIB: imperfect information in a computationally
challenging game", section 3: deals are drawn uniformly, then weighted by the probability that the
other players would have made their calls and played their cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.board_observation import (
    FIRST_CARD,
    card_play_observations,
    declarer_from_position,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.defence_signals import NO_SIGNALS, signals_by_position
from overtrick.games.bridge.cards import CARDS, TRICKS, hand_bits
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players import card_likelihood
from overtrick.games.bridge.system.contradicted_calls import count_contradicted_calls
from overtrick.games.bridge.system.loader import System

PROPOSALS = 4000
SOLVED_CARDS = 10
"""Played cards are judged double dummy if each hand held at most this many cards: solving earlier
positions takes too long."""
FIRST_SOLVED = 4 * (TRICKS - SOLVED_CARDS)
"""Index of the first card that is judged double dummy, of the 52 cards in the order played."""
KEPT = 4  # deals kept for later decisions, as a multiple of the deals of one decision

_GAME = Bridge()


class Worlds(NamedTuple):
    """Worlds: sampled deals that a player considers, with their probabilities."""

    holder: Array  # (W, 52) the seat that was dealt each card
    weight: Array  # (W,) sums to 1


@dataclass(frozen=True)
class Beliefs:
    """Assumptions about the other players, by which sampled deals are weighted.

    systems: bidding systems of North-South and East-West, with their signals in defence; None:
        calls are ignored, and nobody signals.
    signals: whether the signals of the systems are given and read.
    call_error: likelihood of a call that the caller's system would not make with the hand, relative
        to the call that it would make.
    rule_share: probability that a player follows the rules of `careful_player` and its signals:
        of the card that they name and all other cards of its unbroken sequence, each is equally
        likely.
    best_share: probability that a player plays one of the cards that are best double dummy in the
        deal, each with equal probability; for cards played from at most SOLVED_CARDS cards.
    proposals: deals drawn uniformly for one decision, before they are weighted.

    The sum of both shares is below 1; with the rest each legal card is equally likely. If both are
    0, cards are ignored, except that a hand is void in a suit that it did not follow.
    """

    systems: tuple[System, System] | None = None
    signals: bool = True
    call_error: float = 0.02
    rule_share: float = 0.0
    best_share: float = 0.0
    proposals: int = PROPOSALS

    @property
    def informed(self) -> bool:
        """Return whether sampled deals are weighted at all."""
        return self.systems is not None or self.rule_share > 0 or self.best_share > 0

    def signals_by_position(self, declarer: int) -> Array:
        """Return (4, 2) the signals of each position, see `defence_signals`. declarer: seat."""
        pair = self.systems if self.signals else None
        ns, ew = (NO_SIGNALS, NO_SIGNALS) if pair is None else (pair[0].signals, pair[1].signals)
        return signals_by_position(declarer, ns, ew)


class _Facts(NamedTuple):
    """Facts of one observation during card play. Positions are relative to the declarer."""

    seen: Array  # (O,) the observation
    declarer: int  # seat
    hidden: Array  # (4,) bool by position: hands that the player does not see
    strain: int
    cards: Array  # (K,) cards in the order played
    turns: Array  # (K,) position that played each of them
    signals: Array  # (4, 2) by position, see Beliefs.signals_by_position

    def hands(self, holder: Array) -> Array:
        """Return the dealt hands (W, 4) by position, as bit masks, of deals (W, 52) by seat."""
        return np.ascontiguousarray(hand_bits(holder)[:, (self.declarer + np.arange(4)) % 4])


@dataclass(eq=False)
class WorldSampler:
    """Sampler of deals for one player on one board, decision after decision.

    If cards are judged double dummy, it is a particle filter: the deals of earlier decisions are
    kept, weighted by the cards played since, and joined by new ones when few have weight left.

    beliefs: assumptions by which deals are weighted. kept: deals (W, 52), their log weights (W,),
    and the number of played cards that the weights include. most: the largest number of deals that
    a decision asked for; KEPT times as many are kept, those of the highest weights.
    """

    beliefs: Beliefs
    kept: tuple[Array, Array, int] | None = None
    most: int = 0

    def sample(
        self, observations: Observations, count: int, rng: Generator, fewest: float = 0.5
    ) -> Worlds:
        """Sample `count` deals for the one observation during card play in `observations`.

        Deals that are drawn several times are joined. fewest: new deals are drawn if the effective
        number of kept deals is below this share of `count`.
        """
        if not self.beliefs.informed:
            return _join_equal(_redeal(observations, count, rng), np.full(count, 1 / count))
        facts = _facts(observations, self.beliefs)
        if self.beliefs.best_share == 0 or len(facts.cards) <= FIRST_SOLVED:
            return _draw(observations, facts, count, self.beliefs, rng)
        batches = [] if self.kept is None else [self._updated(facts, *self.kept)]
        if sum(_effective_size(log_weight) for _, log_weight in batches) < fewest * count:
            drawn = _draw(observations, facts, count, self.beliefs, rng)
            change = _log_best_ratio(facts, drawn.holder, self.beliefs)
            batches.append((drawn.holder, np.log(drawn.weight) + change))
        holder = np.concatenate([deals for deals, _ in batches])
        log_weight = np.concatenate(
            [np.log(_effective_size(each)) + _normalised(each) for _, each in batches if len(each)]
        )
        self.most = max(self.most, count)
        heaviest = np.argsort(-log_weight, kind="stable")[: KEPT * self.most]
        holder, log_weight = holder[heaviest], _normalised(log_weight[heaviest])
        self.kept = holder, log_weight, len(facts.cards)
        return _resample(holder, np.exp(log_weight), count, rng)

    def _updated(
        self, facts: _Facts, holder: Array, log_weight: Array, covered: int
    ) -> tuple[Array, Array]:
        """Return the deals that all cards played agree with, and their new log weights.

        covered: number of played cards that `log_weight` includes.
        """
        hands = facts.hands(holder)
        likely, choices = card_likelihood.rule_likelihood(
            hands, facts.hidden, facts.cards, facts.strain, facts.signals
        )
        possible = (choices >= 0).all(axis=1)
        best = card_likelihood.best_likelihood(
            hands[possible], facts.hidden, facts.cards, facts.turns, facts.strain, covered
        )
        played = _mixture(likely[possible], choices[possible], self.beliefs, best)[:, covered:]
        return holder[possible], log_weight[possible] + np.log(played).sum(axis=1)


def _facts(observations: Observations, beliefs: Beliefs) -> _Facts:
    """Return the facts of the one observation during card play in `observations`."""
    seen, cards = observations.observation[0], card_play_observations(observations).observation[0]
    seat = int(seen[obs.SEAT])
    declarer = declarer_from_position(seat, int(cards[kernels.OBS_POSITION]))
    played = seen[FIRST_CARD : FIRST_CARD + cards[kernels.OBS_COUNT]]
    hidden = (declarer + np.arange(4)) % 4 != seat
    hidden[2] &= not len(played)
    strain = int(cards[kernels.OBS_STRAIN])
    turns = card_likelihood.playing_positions(played, strain)
    signals = beliefs.signals_by_position(declarer)
    return _Facts(seen, declarer, hidden, strain, played, turns, signals)


def _redeal(observations: Observations, count: int, rng: Generator) -> Array:
    """Draw `count` deals (count, 52) that agree with one observation, uniformly."""
    rows = np.zeros(count, np.int64)
    many = Observations(rows, observations.seat[rows], observations.observation[rows], None, None)
    return _GAME.redeal(many, rng)[:, :CARDS]


def _draw(
    observations: Observations, facts: _Facts, count: int, beliefs: Beliefs, rng: Generator
) -> Worlds:
    """Draw `count` deals for one observation, weighted by the calls and by the rules of play."""
    holder = _redeal(observations, beliefs.proposals, rng)
    log_weight = np.zeros(len(holder))
    if beliefs.systems is not None:
        log_weight += np.log(beliefs.call_error) * count_contradicted_calls(
            hand_bits(holder), ((facts.declarer + np.flatnonzero(facts.hidden)) % 4).tolist(),
            obs.calls_from_observation(facts.seen), int(facts.seen[obs.DEALER]),
            int(facts.seen[obs.VULNERABLE]), *beliefs.systems,
        )  # fmt: skip
    if beliefs.rule_share > 0 or beliefs.best_share > 0:
        likely, choices = card_likelihood.rule_likelihood(
            facts.hands(holder), facts.hidden, facts.cards, facts.strain, facts.signals
        )
        log_weight += np.log(_mixture(likely, choices, beliefs)).sum(axis=1)
    return _resample(holder, np.exp(_normalised(log_weight)), count, rng)


def _resample(holder: Array, weight: Array, count: int, rng: Generator) -> Worlds:
    """Draw `count` of the deals `holder` (W, 52) with probabilities `weight` (W,)."""
    drawn = rng.multinomial(count, weight / weight.sum())
    chosen = np.flatnonzero(drawn)
    return _join_equal(holder[chosen], drawn[chosen] / count)


def _join_equal(holder: Array, weight: Array) -> Worlds:
    """Return the distinct deals among `holder` (W, 52), with the sums of their weights (W,)."""
    distinct, place = np.unique(holder, axis=0, return_inverse=True)
    return Worlds(distinct, np.bincount(place.ravel(), weight))


def _normalised(log_weight: Array) -> Array:
    """Return log weights (W,) shifted so that the weights sum to 1."""
    shifted = log_weight - log_weight.max()
    return shifted - np.log(np.exp(shifted).sum())


def _effective_size(log_weight: Array) -> float:
    """Return the effective number of deals: 1 / sum of the squared weights, normalised to sum 1.

    log_weight: (W,) logarithms of weights, of any sum. Without deals the result is 0.
    """
    return float(1 / (np.exp(_normalised(log_weight)) ** 2).sum()) if len(log_weight) else 0.0


def _mixture(likely: Array, choices: Array, beliefs: Beliefs, best: Array | float = 0.0) -> Array:
    """Return the probability of played cards, given it for each way to play.

    likely, best: probability by the rules and among the best cards. choices: number of legal cards.
    Without `best` its share belongs to the random cards.
    """
    share = beliefs.best_share if isinstance(best, np.ndarray) else 0.0
    rest = 1 - beliefs.rule_share - share
    return np.where(choices == 1, 1.0, beliefs.rule_share * likely + share * best + rest / choices)


def _log_best_ratio(facts: _Facts, holder: Array, beliefs: Beliefs) -> Array:
    """Return (W,) the change of log weights if late cards are also judged double dummy.

    holder: (W, 52) deals.
    """
    hands = facts.hands(holder)
    likely, choices = card_likelihood.rule_likelihood(
        hands, facts.hidden, facts.cards, facts.strain, facts.signals
    )
    best = card_likelihood.best_likelihood(
        hands, facts.hidden, facts.cards, facts.turns, facts.strain, FIRST_SOLVED
    )
    with_best, without = (
        _mixture(likely, choices, beliefs, *more)[:, FIRST_SOLVED:] for more in ((best,), ())
    )
    return np.log(with_best / without).sum(axis=1)
