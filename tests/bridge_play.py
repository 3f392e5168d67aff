"""Hands and played boards of bridge, for the tests of several files."""

from __future__ import annotations

import overtrick
from overtrick.games.bridge.cards import parse_hand


def mask(hand):
    """Return a hand in PBN as a bit mask."""
    return sum(1 << card for card in parse_hand(hand))


def played_boards(player, count, rng, **options):
    """Play boards of one player at all seats; return the game, each state's rows, and the end."""
    game = overtrick.make("bridge", **options)
    state = game.start(game.deal(count, rng))
    session, seen = player.start(count, rng), []
    while len(rows := game.observe(state)):
        seen.append(rows)
        game.step(state, rows, session.act(rows).action)
    return game, seen, state
