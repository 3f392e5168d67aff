"""Compiled kernels of card play: initial states, moves, observations, redeals and features.

The four hands have positions relative to the declarer: 0 declarer, 1 left-hand defender, 2 dummy, 3
right-hand defender. The state of one game is four arrays; the states of G games have one more axis
in front:

    hand      (4,) cards held by each position, as bit masks
    played    (4,) cards played by each position, as bit masks
    trick     (4,) card of each position in the current trick, or NO_CARD
    progress  (8,) numbers about the trick, the play and the contract: columns LED to NEEDED
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Deals
from overtrick.games.bridge.cards import CARDS, TRICKS, hand_bits
from overtrick.games.bridge.trick_rules import NO_CARD, beats, playable_cards

LED, WINNING, TURN, CARDS_PLAYED, TRICKS_WON, VOIDS, STRAIN, NEEDED = range(8)
"""Columns of `progress`:

    LED           the card led to the current trick, or NO_CARD
    WINNING       the position whose card wins the trick so far
    TURN          the position to play
    CARDS_PLAYED  number of cards played
    TRICKS_WON    tricks won by the declaring side
    VOIDS         known voids: bit 4 * position + suit is set if the position did not follow suit
    STRAIN        strain of the contract
    NEEDED        number of tricks needed for the contract
"""
PROGRESS_WIDTH = 8

OBS_POSITION, OBS_STRAIN, OBS_NEEDED, OBS_WON, OBS_COUNT, OBS_OWN, OBS_SHOWN, OBS_TRICK = range(8)
OBS_PLAYED, OBS_VOID = OBS_TRICK + 4, OBS_TRICK + 8
"""Columns of an observation of MiniBridge (see its docstring). OBS_TRICK and OBS_PLAYED are the
first of four columns each, by position."""
OBSERVATION_WIDTH = 16

CARD_SET_COLUMNS = (OBS_OWN, OBS_SHOWN, *range(OBS_PLAYED, OBS_VOID))
"""Observation columns that are bit masks of cards."""
FEATURE_WIDTH = 4 + 5 + 5 + 16 + 4 + 1 + 12 + CARDS * (len(CARD_SET_COLUMNS) + 4 + 3)


@njit(cache=True)
def play_card(card, hand, played, trick, progress):  # type: ignore[no-untyped-def]
    """Play the legal card `card` in one game: update the game's state in place.

    hand, played, trick, progress: the state, as described in the module's docstring.
    """
    position, bit = progress[TURN], np.int64(1) << card
    hand[position] ^= bit
    played[position] |= bit
    if progress[LED] == NO_CARD:
        progress[LED], progress[WINNING] = card, position
    else:
        if card // TRICKS != progress[LED] // TRICKS:
            progress[VOIDS] |= 1 << (4 * position + progress[LED] // TRICKS)
        if beats(card, trick[progress[WINNING]], progress[STRAIN]):
            progress[WINNING] = position
    trick[position] = card
    progress[CARDS_PLAYED] += 1
    progress[TURN] = (position + 1) % 4
    if progress[CARDS_PLAYED] % 4 == 0:
        progress[TRICKS_WON] += progress[WINNING] % 2 == 0
        progress[TURN] = progress[WINNING]
        progress[LED] = NO_CARD
        trick[:] = NO_CARD


@njit(cache=True)
def write_observation(hand, played, trick, progress, out):  # type: ignore[no-untyped-def]
    """Write the observation of the hand to play in one game into `out` (16,).

    hand, played, trick, progress: the game's state, as described in the module's docstring.
    """
    position = progress[TURN]
    out[OBS_POSITION], out[OBS_STRAIN] = position, progress[STRAIN]
    out[OBS_NEEDED], out[OBS_WON] = progress[NEEDED], progress[TRICKS_WON]
    out[OBS_COUNT], out[OBS_VOID] = progress[CARDS_PLAYED], progress[VOIDS]
    out[OBS_OWN] = hand[position]
    after_first_lead = played[0] | played[1] | played[2] | played[3]
    out[OBS_SHOWN] = hand[shown_position(position)] if after_first_lead else 0
    for k in range(4):
        out[OBS_TRICK + k] = trick[k]
        out[OBS_PLAYED + k] = played[k]


@njit(cache=True)
def shown_position(position):  # type: ignore[no-untyped-def]
    """Return the position of the hand that the player at `position` sees besides its own.

    This is dummy, or the declarer if `position` is dummy. 0 declarer, 1 left-hand defender, 2
    dummy, 3 right-hand defender.
    """
    return 0 if position == 2 else 2


@njit(cache=True)
def led_card(observation):  # type: ignore[no-untyped-def]
    """Return the card led to the current trick at one observation (K,), or NO_CARD."""
    place = observation[OBS_COUNT] % 4
    leader = (observation[OBS_POSITION] - place) % 4
    return observation[OBS_TRICK + leader] if place else NO_CARD


@njit(cache=True)
def winning_position(observation):  # type: ignore[no-untyped-def]
    """Return the position whose card is currently winning the trick at one observation (K,).

    0 declarer, 1 left-hand defender, 2 dummy, 3 right-hand defender. The result is meaningless
    before the lead to the trick.
    """
    position, place = observation[OBS_POSITION], observation[OBS_COUNT] % 4
    best = (position - place) % 4
    for k in range(place - 1, 0, -1):
        other = (position - k) % 4
        card, best_card = observation[OBS_TRICK + other], observation[OBS_TRICK + best]
        if beats(card, best_card, observation[OBS_STRAIN]):
            best = other
    return best


@njit(cache=True)
def seen_cards(observation):  # type: ignore[no-untyped-def]
    """Return the bit mask of all cards visible at one observation (K,).

    They are the cards of the hand to play, the cards of the other visible hand, and all cards
    already played.
    """
    seen = observation[OBS_OWN] | observation[OBS_SHOWN]
    for position in range(4):
        seen |= observation[OBS_PLAYED + position]
    return seen


def initial_tables(deals: Deals) -> tuple[Array, Array, Array, Array]:
    """Return the states of G games before the opening lead: `hand`, `played`, `trick`, `progress`.

    The module's docstring describes these arrays.

    deals: (G, 54) the position that holds each of the 52 cards, the strain, and the number of
    tricks needed. Deals may be endings with fewer than 13 tricks: cards with position -1 count as
    already played, in tricks won by the defence.
    """
    hand = hand_bits(deals[:, :CARDS])
    progress = np.zeros((len(deals), PROGRESS_WIDTH), np.int64)
    progress[:, CARDS_PLAYED] = (deals[:, :CARDS] < 0).sum(axis=1)
    progress[:, LED] = NO_CARD
    progress[:, TURN] = 1
    progress[:, [STRAIN, NEEDED]] = deals[:, CARDS:]
    return hand, np.zeros((len(deals), 4), np.int64), np.full((len(deals), 4), NO_CARD), progress


@njit(cache=True)
def observe(games, hand, played, trick, progress):  # type: ignore[no-untyped-def]
    """Return observations (R, K) and legal cards (R, 52) bool of the hands to play.

    games: (R,) indices of the games that are not over. hand, played, trick, progress: the states of
    all games, as described in the module's docstring.
    """
    observation = np.empty((len(games), OBSERVATION_WIDTH), np.int64)
    for row in range(len(games)):
        game = games[row]
        table = hand[game], played[game], trick[game], progress[game]
        write_observation(*table, observation[row])
    return observation, legal_cards(observation)


@njit(cache=True)
def legal_cards(observation):  # type: ignore[no-untyped-def]
    """Return the legal cards (R, 52) bool at each observation (R, K)."""
    legal = np.empty((len(observation), CARDS), np.bool_)
    for row in range(len(observation)):
        seen = observation[row]
        write_cards(playable_cards(seen[OBS_OWN], led_card(seen)), legal[row])
    return legal


@njit(cache=True)
def write_cards(cards, out):  # type: ignore[no-untyped-def]
    """Write a bit mask of cards into `out` (52,) as zeros and ones."""
    for card in range(CARDS):
        out[card] = cards >> card & 1


@njit(cache=True)
def advance(games, cards, hand, played, trick, progress):  # type: ignore[no-untyped-def]
    """Play one card in each of the given games, in place; return -1 (NO_CARD) if all are legal.

    If any card is illegal, change no game and return the index in `cards` of the first illegal
    card.

    games: (R,) indices of the games. cards: (R,) the card to play in each of these games. hand,
    played, trick, progress: the states of all games, as described in the module's docstring.
    """
    for row in range(len(games)):
        game, card = games[row], cards[row]
        if card < 0 or card >= CARDS:
            return row
        if not playable_cards(hand[game, progress[game, TURN]], progress[game, LED]) >> card & 1:
            return row
    for row in range(len(games)):
        game = games[row]
        play_card(cards[row], hand[game], played[game], trick[game], progress[game])
    return NO_CARD


@njit(cache=True)
def resume(observation, deals, hand, played, trick, progress):  # type: ignore[no-untyped-def]
    """Rebuild the states of R games from observations (R, K) and complete deals (R, 54).

    deals: (R, 54) the position that holds each of the 52 cards, including the cards already played;
        the last two columns are not used.

    The states are written to four output arrays:

    - `hand` (R, 4): cards that each position still holds, as bit masks
    - `played` (R, 4): cards that each position has played, as bit masks
    - `trick` (R, 4): card of each position in the current trick, or NO_CARD
    - `progress` (R, 8): numbers such as the position to play and the tricks won, columns LED to
      NEEDED
    """
    for row in range(len(observation)):
        seen = observation[row]
        played[row] = seen[OBS_PLAYED : OBS_PLAYED + 4]
        trick[row] = seen[OBS_TRICK : OBS_TRICK + 4]
        hand[row] = 0
        for card in range(CARDS):
            hand[row, deals[row, card]] |= np.int64(1) << card
        hand[row] &= ~played[row]
        progress[row, LED], progress[row, WINNING] = led_card(seen), winning_position(seen)
        progress[row, TURN], progress[row, CARDS_PLAYED] = seen[OBS_POSITION], seen[OBS_COUNT]
        progress[row, TRICKS_WON], progress[row, VOIDS] = seen[OBS_WON], seen[OBS_VOID]
        progress[row, STRAIN], progress[row, NEEDED] = seen[OBS_STRAIN], seen[OBS_NEEDED]


@njit(cache=True)
def redeal(observation, deals, rng):  # type: ignore[no-untyped-def]
    """Sample the holders of hidden cards at observations (R, K), and write `deals` (R, 54).

    The sample is uniform among the deals in which no hand holds a card of a suit in which it is
    known to be void. Once dummy is open only two hands are hidden: a card that one hand cannot hold
    goes to the other hand, and the remaining cards are dealt at random. Columns 0 to 51 of `deals`
    receive the holders of all cards; columns 52 and 53 (strain, tricks needed) stay unchanged.
    """
    hidden = np.empty(CARDS, np.int64)
    room = np.empty(4, np.int64)
    for row in range(len(observation)):
        unknown = _place_seen(observation[row], deals[row], hidden, room)
        free = _place_forced(observation[row, OBS_VOID], deals[row], hidden[:unknown], room)
        for last in range(free - 1, -1, -1):
            place = int(rng.random() * (last + 1))
            card, hidden[place] = hidden[place], hidden[last]
            position = 0
            while room[position] == 0:
                position += 1
            deals[row, card] = position
            room[position] -= 1


@njit(cache=True)
def _place_seen(observation, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Write the holder of each card that is visible at one observation (K,) into `deal`.

    Return the number of hidden cards. Holders are positions: 0 declarer, 1 left-hand defender,
    2 dummy, 3 right-hand defender. The holder of a played card is the position that played it.

    deal: (54,) output; the entries of hidden cards stay unchanged.
    hidden: (52,) output; its first entries are the hidden cards.
    room: (4,) output, the number of hidden cards that each position holds.
    """
    position, unknown = observation[OBS_POSITION], 0
    room[:] = TRICKS
    for card in range(CARDS):
        holder = NO_CARD
        for k in range(4):
            if observation[OBS_PLAYED + k] >> card & 1:
                holder = k
        if observation[OBS_OWN] >> card & 1:
            holder = position
        elif observation[OBS_SHOWN] >> card & 1:
            holder = shown_position(position)
        if holder == NO_CARD:
            hidden[unknown] = card
            unknown += 1
        else:
            deal[card] = holder
            room[holder] -= 1
    return unknown


@njit(cache=True)
def _place_forced(voids, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Assign each hidden card that only one hand can hold to that hand, in `deal`.

    The cards are visited once, in the order of `hidden`. A hand can hold a card if it has room and
    is not known to be void in the suit. Return the number of cards left unassigned.

    voids: known voids, bit 4 * position + suit.
    deal: (54,) output, the position that holds each card.
    hidden: the hidden cards; the unassigned cards are moved to its front.
    room: (4,) number of hidden cards that each position holds; assigned cards are subtracted.
    """
    free = 0
    for card in hidden:
        able = ables = 0
        for position in range(4):
            if room[position] > 0 and not voids >> (4 * position + card // TRICKS) & 1:
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
def features(observation):  # type: ignore[no-untyped-def]
    """Return the network inputs (R, FEATURE_WIDTH) float32 listed in `MiniBridge.features`."""
    out = np.zeros((len(observation), FEATURE_WIDTH), np.float32)
    for row in range(len(observation)):
        seen, numbers = observation[row], out[row]
        place, goal = seen[OBS_COUNT] % 4, seen[OBS_NEEDED] - seen[OBS_WON]
        numbers[seen[OBS_POSITION]] = 1
        numbers[4 + seen[OBS_STRAIN]] = 1
        numbers[9], numbers[10] = seen[OBS_NEEDED], seen[OBS_WON]
        numbers[11], numbers[12] = seen[OBS_COUNT] / 4, goal
        numbers[13] = goal - (TRICKS - seen[OBS_COUNT] // 4)
        numbers[9:14] /= TRICKS
        for bit in range(16):
            numbers[14 + bit] = seen[OBS_VOID] >> bit & 1
        numbers[30 + place] = 1
        winning = winning_position(seen)
        numbers[34] = place > 0 and winning % 2 == seen[OBS_POSITION] % 2
        start = 47
        for column in CARD_SET_COLUMNS:
            write_cards(seen[column], numbers[start : start + CARDS])
            start += CARDS
        for column in range(OBS_TRICK, OBS_TRICK + 4):
            if seen[column] != NO_CARD:
                numbers[start + seen[column]] = 1
            start += CARDS
        best = seen[OBS_TRICK + winning] if place else NO_CARD
        _write_winners(seen, best, numbers[35:47], numbers[start:])
    return out


@njit(cache=True)
def _write_winners(observation, best, counts, cards):  # type: ignore[no-untyped-def]
    """Write the features that describe suit lengths and winning cards at one observation (K,).

    best: the card that is currently winning the trick, or NO_CARD.
    counts: (12,) output, by suit: number of own cards, cards of the other visible hand, and unseen
        cards, divided by 13.
    cards: (156,) output, three sets of cards with 52 numbers each: unseen cards; master cards of
        both visible hands, higher than all unseen cards of their suit; own cards that beat `best`.
    """
    seen = seen_cards(observation)
    for suit in range(4):
        beaten = False
        for rank in range(TRICKS - 1, -1, -1):
            card = TRICKS * suit + rank
            own, shown = observation[OBS_OWN] >> card & 1, observation[OBS_SHOWN] >> card & 1
            unseen = not seen >> card & 1
            counts[3 * suit] += own / TRICKS
            counts[3 * suit + 1] += shown / TRICKS
            counts[3 * suit + 2] += unseen / TRICKS
            beaten = beaten or unseen
            cards[card] = unseen
            cards[CARDS + card] = (own or shown) and not beaten
            takes = own and best != NO_CARD and beats(card, best, observation[OBS_STRAIN])
            cards[2 * CARDS + card] = takes
