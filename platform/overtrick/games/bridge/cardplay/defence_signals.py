"""Signals of defenders: the rank of a small card tells partner about a suit.

Only cards that do not try to win the trick signal, and only the first card that a defender plays of
a suit. A card signals attitude in a suit that partner led, and count in other suits and discards.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass

import numpy as np
from numba import njit

from overtrick.core import Array, UserError, suggestion
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import JACK, NINE, careful_card
from overtrick.games.bridge.cards import TRICKS, count_cards
from overtrick.games.bridge.trick_rules import beats, lowest_card, suit_cards

METHODS = {"none": 0, "standard": 1, "upside-down": -1}
"""Methods of a signal. standard: a high card shows an even number of cards (count), or a queen,
king or ace (attitude). upside-down: a low card does."""


@dataclass(frozen=True)
class Signals:
    """Signals of a partnership in defence: numbers of METHODS."""

    count: int = 0
    attitude: int = 0


NO_SIGNALS = Signals()


def parse_signals(text: str) -> Signals:
    """Parse signals such as "count standard, attitude upside-down", or "none".

    Defenders do not signal what the text leaves out. Raises UserError for an unknown signal or
    method, a signal that is named twice, and an empty text.
    """
    if text.strip() == "none":
        return NO_SIGNALS
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, _, method = " ".join(part.split()).partition(" ")
        if not kind:
            raise UserError('signals: write "count standard, attitude standard", or "none"')
        if kind in found:
            raise UserError(f"signals: {kind} is named twice: leave one out")
        for word, known in ((kind, tuple(asdict(NO_SIGNALS))), (method, tuple(METHODS))):
            if word not in known:
                raise UserError(f"signals '{part.strip()}': {suggestion(word, known)}")
        found[kind] = METHODS[method]
    return Signals(**found)


def describe_signals(signals: Signals) -> str:
    """Return signals as a system file has them; "none" if there are none."""
    names = {number: name for name, number in METHODS.items()}
    parts = [f"{kind} {names[number]}" for kind, number in asdict(signals).items() if number]
    return ", ".join(parts) or "none"


def signals_by_position(declarer: int, ns: Signals, ew: Signals) -> Array:
    """Return (4, 2) the signals, count and attitude, of each position; none of the declaring side.

    declarer: seat. ns, ew: signals of each side.
    """
    found = np.zeros((4, 2), np.int64)
    found[1::2] = astuple(ew if declarer % 2 == 0 else ns)
    return found


@njit(cache=True)
def signalling_card(observation, signals):  # type: ignore[no-untyped-def]
    """Return the card of `careful_card` at one observation (K,), or a small card that signals.

    signals: (4, 2) count and attitude by position, see `signals_by_position`.
    """
    card = careful_card(observation)
    position, place = observation[kernels.OBS_POSITION], observation[kernels.OBS_COUNT] % 4
    count, attitude = signals[position]
    if place == 0 or (count == 0 and attitude == 0):
        return card
    of_suit = suit_cards(card // TRICKS)
    held = observation[kernels.OBS_OWN] & of_suit
    if card != lowest_card(held) or observation[kernels.OBS_PLAYED + position] & of_suit:
        return card
    led, strain = kernels.led_card(observation), observation[kernels.OBS_STRAIN]
    best = observation[kernels.OBS_TRICK + kernels.winning_position(observation)]
    if beats(card, best, strain):
        return card
    if led // TRICKS == card // TRICKS and place == 2:
        sign, positive = attitude, held >> (card // TRICKS * TRICKS + JACK + 1) != 0
    else:
        sign, positive = count, count_cards(held) % 2 == 0
    if sign == 0 or positive != (sign > 0):
        return card
    for rank in range(NINE, -1, -1):
        other = card // TRICKS * TRICKS + rank
        if held >> other & 1 and not beats(other, best, strain):
            return other
    return card
