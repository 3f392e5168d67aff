"""The kernels of card play: what a table is, what a seat sees of it, and what one card changes.

A table is four arrays: `hand`, `played` and `trick` (4,), by position what is held, what was
played, and the card in this trick, or NOTHING; and `now` (8,), with the columns named here.
Many tables side by side have one axis more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.games.bridge.cards import CARDS, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, beats, playable_cards

LED, WINNING, TURN, CARDS_PLAYED, TRICKS_WON, VOIDS, STRAIN, NEEDED = range(8)
"""Columns of `now`: the card led, or NOTHING; whose card takes the trick so far; who plays next;
cards played; tricks of the declaring side; bit 4 * position + suit where somebody did not follow;
the strain; tricks to be made."""
PROGRESS_WIDTH = 8

OBSERVATION_WIDTH = 16
(
    OBS_POSITION,
    OBS_STRAIN,
    OBS_NEEDED,
    OBS_WON,
    OBS_COUNT,
    OBS_OWN,
    OBS_SHOWN,
    OBS_TRICK,
    OBS_PLAYED,
    OBS_VOID,
) = 0, 1, 2, 3, 4, 5, 6, 7, 11, 15
"""Where the facts of a row begin, named as in MiniBridge; TRICK and PLAYED have one a position."""

CARD_SET_COLUMNS = (
    OBS_OWN,
    OBS_SHOWN,
    *range(OBS_PLAYED, OBS_PLAYED + 4),
)  # facts that are sets of cards
FEATURE_WIDTH = 4 + 5 + 5 + 16 + 4 + 1 + 12 + CARDS * (len(CARD_SET_COLUMNS) + 4 + 3)


@njit(cache=True)
def play_card(card, hand, played, trick, now):  # type: ignore[no-untyped-def]
    """Play a lawful card at one table."""
    who, bit = now[TURN], np.int64(1) << card
    hand[who] ^= bit
    played[who] |= bit
    if now[LED] == NO_CARD:
        now[LED], now[WINNING] = card, who
    else:
        if card // TRICKS != now[LED] // TRICKS:
            now[VOIDS] |= 1 << (4 * who + now[LED] // TRICKS)
        if beats(card, trick[now[WINNING]], now[STRAIN]):
            now[WINNING] = who
    trick[who] = card
    now[CARDS_PLAYED] += 1
    now[TURN] = (who + 1) % 4
    if now[CARDS_PLAYED] % 4 == 0:
        now[TRICKS_WON] += now[WINNING] % 2 == 0
        now[TURN] = now[WINNING]
        now[LED] = NO_CARD
        trick[:] = NO_CARD


@njit(cache=True)
def write_observation(hand, played, trick, now, facts):  # type: ignore[no-untyped-def]
    """Write what who plays next knows (K,) of one table."""
    who = now[TURN]
    facts[OBS_POSITION], facts[OBS_STRAIN], facts[OBS_NEEDED] = who, now[STRAIN], now[NEEDED]
    facts[OBS_WON], facts[OBS_COUNT], facts[OBS_VOID] = (
        now[TRICKS_WON],
        now[CARDS_PLAYED],
        now[VOIDS],
    )
    facts[OBS_OWN] = hand[who]
    opened = played[0] | played[1] | played[2] | played[3]
    facts[OBS_SHOWN] = hand[2 if who % 2 else 2 - who] if opened else 0
    for position in range(4):
        facts[OBS_TRICK + position] = trick[position]
        facts[OBS_PLAYED + position] = played[position]


@njit(cache=True)
def initial_tables(hands, strain, needed):  # type: ignore[no-untyped-def]
    """Tables before the opening lead: played, trick (G, 4) and now (G, 8). With fewer than all
    cards it is as if the first tricks had been played, and none of them won."""
    games = len(hands)
    now = np.zeros((games, PROGRESS_WIDTH), np.int64)
    for game in range(games):
        now[game, CARDS_PLAYED] = CARDS
        for position in range(4):
            now[game, CARDS_PLAYED] -= count_cards(hands[game, position])
    now[:, LED] = NO_CARD
    now[:, TURN] = 1
    now[:, STRAIN], now[:, NEEDED] = strain, needed
    return np.zeros((games, 4), np.int64), np.full((games, 4), NO_CARD), now


@njit(cache=True)
def observe(games, hand, played, trick, now):  # type: ignore[no-untyped-def]
    """What who plays next at some tables knows (R, K), and may play (R, 52)."""
    seen = np.empty((len(games), OBSERVATION_WIDTH), np.int64)
    for row in range(len(games)):
        game = games[row]
        write_observation(hand[game], played[game], trick[game], now[game], seen[row])
    return seen, legal_cards(seen)


@njit(cache=True)
def legal_cards(seen):  # type: ignore[no-untyped-def]
    """(R, 52) what rows of facts (R, K) may play."""
    found = np.zeros((len(seen), CARDS), np.bool_)
    for row in range(len(seen)):
        facts = seen[row]
        place = facts[OBS_COUNT] % 4
        may = playable_cards(
            facts[OBS_OWN],
            facts[OBS_TRICK + (facts[OBS_POSITION] - place) % 4] if place else NO_CARD,
        )
        for card in range(CARDS):
            found[row, card] = may >> card & 1
    return found


@njit(cache=True)
def advance(games, cards, hand, played, trick, now):  # type: ignore[no-untyped-def]
    """Play one card at each of some tables, in place; at none if one of them may not be played:
    then the first such row is returned, else NOTHING."""
    for row in range(len(games)):
        game, card = games[row], cards[row]
        if card < 0 or card >= CARDS:
            return row
        if not playable_cards(hand[game, now[game, TURN]], now[game, LED]) >> card & 1:
            return row
    for row in range(len(games)):
        game = games[row]
        play_card(cards[row], hand[game], played[game], trick[game], now[game])
    return NO_CARD


@njit(cache=True)
def resume(seen, deals, hand, played, trick, now):  # type: ignore[no-untyped-def]
    """Write the tables that rows (R, K) stand at if the cards lie as in deals (R, 54)."""
    for row in range(len(seen)):
        facts = seen[row]
        who, place = facts[OBS_POSITION], facts[OBS_COUNT] % 4
        leader = (who - place) % 4
        for position in range(4):
            played[row, position] = facts[OBS_PLAYED + position]
            trick[row, position] = facts[OBS_TRICK + position]
            hand[row, position] = 0
        for card in range(CARDS):
            hand[row, deals[row, card]] |= np.int64(1) << card
        hand[row] &= ~played[row]
        now[row, LED] = facts[OBS_TRICK + leader] if place else NO_CARD
        now[row, WINNING] = winning_position(facts)
        now[row, TURN], now[row, CARDS_PLAYED] = who, facts[OBS_COUNT]
        now[row, TRICKS_WON], now[row, VOIDS] = facts[OBS_WON], facts[OBS_VOID]
        now[row, STRAIN], now[row, NEEDED] = facts[OBS_STRAIN], facts[OBS_NEEDED]


@njit(cache=True)
def winning_position(facts):  # type: ignore[no-untyped-def]
    """Whose card takes the trick so far; of no meaning if none was led."""
    who, place = facts[OBS_POSITION], facts[OBS_COUNT] % 4
    best = (who - place) % 4
    for k in range(place - 1, 0, -1):
        other = (who - k) % 4
        if beats(facts[OBS_TRICK + other], facts[OBS_TRICK + best], facts[OBS_STRAIN]):
            best = other
    return best


@njit(cache=True)
def redeal(seen, deals, rng):  # type: ignore[no-untyped-def]
    """Write who holds each card into the first 52 columns of deals (R, 54), from facts (R, K).

    What nobody has shown goes to the hands that the row does not see. Only two of them can be
    known to be void in a suit, for then dummy lies open: a card of such a suit goes to the other
    one, and of the rest each has its share at random.
    """
    hidden = np.empty(CARDS, np.int64)
    room = np.empty(4, np.int64)
    for row in range(len(seen)):
        unknown = _place_known(seen[row], deals[row], hidden, room)
        free = _place_forced(seen[row, OBS_VOID], deals[row], hidden[:unknown], room)
        for last in range(free - 1, -1, -1):
            place = int(rng.random() * (last + 1))
            card, hidden[place] = hidden[place], hidden[last]
            position = 0
            while room[position] == 0:
                position += 1
            deals[row, card] = position
            room[position] -= 1


@njit(cache=True)
def _place_known(facts, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Write who holds the cards that a row knows of; how many it does not, which are then in
    hidden, and in room how many of them each position has."""
    who, unknown = facts[OBS_POSITION], 0
    other = 2 if who % 2 else 2 - who
    room[:] = TRICKS
    for card in range(CARDS):
        holder = NO_CARD
        for position in range(4):
            if facts[OBS_PLAYED + position] >> card & 1:
                holder = position
        if facts[OBS_OWN] >> card & 1:
            holder = who
        elif facts[OBS_SHOWN] >> card & 1:
            holder = other
        if holder == NO_CARD:
            hidden[unknown] = card
            unknown += 1
        else:
            deal[card] = holder
            room[holder] -= 1
    return unknown


@njit(cache=True)
def _place_forced(void, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Write who holds the hidden cards that only one hand can have; how many are left, which then
    stand first."""
    free = 0
    for card in hidden:
        able = ables = 0
        for position in range(4):
            if room[position] > 0 and not void >> (4 * position + card // TRICKS) & 1:
                able = position
                ables += 1
        if ables == 1:
            deal[card] = able
            room[able] -= 1
        else:
            hidden[free] = card
            free += 1
    return free


@njit(cache=True)
def features(seen):  # type: ignore[no-untyped-def]
    """(R, WIDTH) float32, as MiniBridge.features says."""
    out = np.zeros((len(seen), FEATURE_WIDTH), np.float32)
    for row in range(len(seen)):
        facts, numbers = seen[row], out[row]
        place, goal = facts[OBS_COUNT] % 4, facts[OBS_NEEDED] - facts[OBS_WON]
        numbers[facts[OBS_POSITION]] = 1
        numbers[4 + facts[OBS_STRAIN]] = 1
        numbers[9], numbers[10], numbers[11] = (
            facts[OBS_NEEDED],
            facts[OBS_WON],
            facts[OBS_COUNT] / 4,
        )
        numbers[12], numbers[13] = goal, goal - (TRICKS - facts[OBS_COUNT] // 4)
        numbers[9:14] /= TRICKS
        for bit in range(16):
            numbers[14 + bit] = facts[OBS_VOID] >> bit & 1
        numbers[30 + place] = 1
        taker = winning_position(facts)
        numbers[34] = place > 0 and taker % 2 == facts[OBS_POSITION] % 2
        start = 47
        for column in CARD_SET_COLUMNS:
            for card in range(CARDS):
                numbers[start + card] = facts[column] >> card & 1
            start += CARDS
        for column in range(OBS_TRICK, OBS_TRICK + 4):
            if facts[column] != NO_CARD:
                numbers[start + facts[column]] = 1
            start += CARDS
        best = facts[OBS_TRICK + taker] if place else NO_CARD
        _stand_out(facts, best, numbers[35:47], numbers[start:])
    return out


@njit(cache=True)
def _stand_out(facts, best, counts, cards):  # type: ignore[no-untyped-def]
    """Write how many cards of each suit are own, shown and unseen, as shares of 13 (12,); and by
    card (156,) those that are unseen, those held or shown that no unseen one beats, and those that
    would take the trick from the best so far."""
    known = facts[OBS_OWN] | facts[OBS_SHOWN]
    for position in range(4):
        known |= facts[OBS_PLAYED + position]
    for suit in range(4):
        beaten = False
        for rank in range(TRICKS - 1, -1, -1):
            card = TRICKS * suit + rank
            own, shown = facts[OBS_OWN] >> card & 1, facts[OBS_SHOWN] >> card & 1
            unseen = not known >> card & 1
            counts[3 * suit] += own / TRICKS
            counts[3 * suit + 1] += shown / TRICKS
            counts[3 * suit + 2] += unseen / TRICKS
            beaten = beaten or unseen
            cards[card] = unseen
            cards[CARDS + card] = (own or shown) and not beaten
            takes = own and best != NO_CARD and beats(card, best, facts[OBS_STRAIN])
            cards[2 * CARDS + card] = takes
