"""Exact probability of a contract on small deals, by search over all plays.

The declarer knows all cards and the defenders play at random (the 12-card study of Hadjur 2018,
section 5.1).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, NOTRUMP

HONOURS = np.array([card for card, name in enumerate(CARD_NAMES) if name[1] in "QKA"])
NEEDED_OF_THREE = 2
ONE_GAME = np.zeros(1, np.int64)


def deal_twelve_cards(games: int, rng: Generator) -> Deals:
    """Draw deals (G, 54) of only the queens, kings and aces, three to a hand.

    The contract is two of the three tricks in notrump; the other cards have holder -1.
    """
    deals = np.full((games, CARDS + 2), -1, np.int8)
    deals[:, HONOURS] = rng.permuted(np.tile(np.repeat(np.arange(4), 3), (games, 1)), axis=1)
    deals[:, CARDS:] = NOTRUMP, NEEDED_OF_THREE
    return deals


def contract_probability(
    deal: Array, policy: BehaviouralPolicy | None = None
) -> tuple[float, list[str]]:
    """Return the probability that one deal (54,) is made against random defenders, and a line.

    The declaring side plays the likeliest card of the policy, or without a policy the best card.
    The line is the sequence of cards against the defenders' best play. Every play is searched, so
    the deal may have at most 16 cards.
    """
    return _search(kernels.initial_tables(deal[None]), policy)


def _search(table: tuple[Array, ...], policy: BehaviouralPolicy | None) -> tuple[float, list[str]]:
    """Return the probability and the line of `contract_probability` from one table on."""
    progress = table[3][0]
    if progress[kernels.CARDS_PLAYED] == CARDS:
        return float(progress[kernels.TRICKS_WON] >= progress[kernels.NEEDED]), []
    observation, legal = kernels.observe(ONE_GAME, *table)
    declaring = observation[0, kernels.OBS_POSITION] % 2 == 0
    if declaring and policy is not None:
        observations = Observations(ONE_GAME, ONE_GAME, observation, legal, None)
        options = [int(policy.probs(observations)[0].argmax())]
    else:
        options = np.flatnonzero(legal[0]).tolist()
    results = []
    for card in options:
        after = tuple(each.copy() for each in table)
        kernels.advance(ONE_GAME, np.array([card]), *after)
        probability, line = _search(after, policy)
        results.append((probability, [CARD_NAMES[card], *line]))
    values = [probability for probability, _ in results]
    if declaring:
        return results[int(np.argmax(values))]
    return float(np.mean(values)), results[int(np.argmin(values))][1]
