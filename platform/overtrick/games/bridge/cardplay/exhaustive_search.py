"""Small deals played in every way there is: what a declarer who knows them can make of random
defenders (the 12-card study of Hadjur 2018, section 5.1)."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Deals, Observations
from overtrick.games.bridge.cardplay.kernels import (
    CARDS_PLAYED,
    NEEDED,
    OBS_POSITION,
    TRICKS_WON,
    advance,
    initial_tables,
    observe,
)
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, NOTRUMP, hand_bits

HONOURS = np.array([card for card, name in enumerate(CARD_NAMES) if name[1] in "QKA"])
NEEDED_OF_THREE = 2


def deal_twelve_cards(games: int, rng: Generator) -> Deals:
    """(G, 54) deals of the queens, kings and aces alone, three to a hand; two tricks of three are
    to be made in notrump."""
    deals = np.full((games, CARDS + 2), -1, np.int8)
    deals[:, HONOURS] = rng.permuted(np.tile(np.repeat(np.arange(4), 3), (games, 1)), axis=1)
    deals[:, CARDS:] = NOTRUMP, NEEDED_OF_THREE
    return deals


def contract_probability(
    deal: Array, policy: BehaviouralPolicy | None = None
) -> tuple[float, list[str]]:
    """How likely the contract of a deal (54,) is made against random defenders, and a line of play.

    The declaring side takes the likeliest card of the policy; without one, the best. The line is
    that against the defenders' best cards. Not for more than 16 cards: all ways to play are tried.
    """
    held = hand_bits(deal[None, :CARDS])
    strain, needed = np.array([deal[CARDS]], np.int64), np.array([deal[CARDS + 1]], np.int64)
    return _follow((held, *initial_tables(held, strain, needed)), policy)


def _follow(table: tuple[Array, ...], policy: BehaviouralPolicy | None) -> tuple[float, list[str]]:
    now = table[3][0]
    if now[CARDS_PLAYED] == CARDS:
        return float(now[TRICKS_WON] >= now[NEEDED]), []
    seen, legal = observe(np.zeros(1, np.int64), *table)
    own = seen[0, OBS_POSITION] % 2 == 0
    if own and policy is not None:
        observations = Observations(np.zeros(1, np.int64), np.zeros(1, np.int64), seen, legal, None)
        options = [int(policy.probs(observations)[0].argmax())]
    else:
        options = np.flatnonzero(legal[0]).tolist()
    found = []
    for card in options:
        after = tuple(each.copy() for each in table)
        advance(np.zeros(1, np.int64), np.array([card]), *after)
        worth, line = _follow(after, policy)
        found.append((worth, [CARD_NAMES[card], *line]))
    worths = [worth for worth, _ in found]
    if own:
        return found[int(np.argmax(worths))]
    return float(np.mean(worths)), found[int(np.argmin(worths))][1]
