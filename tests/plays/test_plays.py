"""Replay recorded games line by line. GAME.txt holds a few games that a reader can check by hand
from the rules. Write one for every new game.

    deal CARD ...                          the deal's columns in their order
    SEAT ; FIELD=VALUE ... ; ACTION ... ; ACTION     the seat that acts, its observation, its
                                                     legal actions, its action
    won POINTS ...                         the payoff of each seat at the end of the game

Seats that act simultaneously are ordered by seat. A line that starts with # is a comment. Fields
with the value -1 may be omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import overtrick
from overtrick.games.bridge.auction.game import UNSOLVED
from overtrick.games.bridge.cards import CARD_NAMES, SEATS, STRAINS, format_hand, parse_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table

HERE = Path(__file__).parent
RECORDS = sorted(path.stem for path in HERE.glob("*.txt"))


@dataclass
class RecordedGame:
    """A game as it is written in its file."""

    deal: list
    decisions: list  # (seat, observation, legal actions, action) each, as words
    won: list


def parse(text):
    """Return the games of a file. Raises ValueError at a line of another form."""
    games, deal, decisions = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, rest = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if kind == "deal" and deal is None:
            deal = rest.split()
        elif kind == "won" and deal is not None:
            games.append(RecordedGame(deal, decisions, [float(points) for points in rest.split()]))
            deal, decisions = None, []
        elif kind.isdigit() and deal is not None and line.count(";") == 3:
            seat, observation, legal, action = (part.split() for part in line.split(";"))
            decisions.append((int(*seat), observation, legal, *action))
        else:
            raise ValueError(f"line {number} is no part of a game: {line}")
    if deal is not None:
        raise ValueError("the last game has no end")
    return games


def card(game, number):
    """Return a card as it is written: its rank (and suit, where suits matter), or - for none."""
    return game.card_name(number) or "-"


def betting(game, node):
    """Return the actions that led to a node of the betting tree."""
    return ",".join(game.action_names[a] for a in game.betting.history[node]) or "-"


def bridge_card(game, number):
    return CARD_NAMES[number] if number >= 0 else "-"


def bridge_cards(game, cards):
    return format_hand(cards)


def strain(game, number):
    return STRAINS[number]


WORDS = {
    "hole": card, "board": card, "betting": betting, "own": bridge_cards, "shown": bridge_cards,
    "played": bridge_cards, "trick": bridge_card, "strain": strain, "dummy": bridge_cards,
    "card": bridge_card,
}  # fmt: skip
"""Fields that are written in words, hole_1 like hole; all others are written as numbers."""


def written(game, field, value):
    """Return one field as it is written."""
    format_value = WORDS.get(field.partition("_")[0]) if field != "own_chips" else None
    return f"{field}={format_value(game, value) if format_value else value}"


def observation_words(game, values):
    """Return the fields of a row as they are written."""
    named_values = zip(game.observation_fields, values, strict=True)
    return [written(game, field, value) for field, value in named_values]


def deal_from(game, words):
    """Return the columns of a deal. Cards are written by name; in Mini-Bridge the hands from the
    declarer's on, the strain, and the tricks to be made; in the auction the hands from North's on,
    the dealer, the vulnerability, and the double-dummy tricks in the format of zhang_tsv.py; in
    bridge the same without tricks."""
    if game.name == "minibridge":
        *hands, called, needed = words
        return [*parse_deal("N:" + " ".join(hands)), STRAINS.index(called), int(needed)]
    if game.name == "auction":
        *hands, dealer, vulnerable, digits = words
        column = SEATS.index(dealer), VULNERABILITIES.index(vulnerable)
        return [*parse_deal("N:" + " ".join(hands)), *column, *parse_trick_table(digits).ravel()]
    if game.name == "bridge":
        *hands, dealer, vulnerable = words
        column = SEATS.index(dealer), VULNERABILITIES.index(vulnerable)
        return [*parse_deal("N:" + " ".join(hands)), *column, *[UNSOLVED] * 20]
    if not words:
        return []
    if words[0].isdigit() and not hasattr(game, "card_name"):
        return [int(column) for column in words]
    deck = game.rules.ranks * (1 if game.fold else game.rules.suits)
    cards = {card(game, c): c for c in range(deck)}
    return [cards[c] for c in words]


def replay(game, recorded):
    """Play a recorded game and compare all its observations, legal actions and payoffs."""
    state = game.start(np.array([deal_from(game, recorded.deal)], np.int64))
    won = np.zeros(game.seats)
    lines = iter(recorded.decisions)
    while len(observations := game.observe(state)):
        actions = np.empty(len(observations), np.int64)
        for row in np.argsort(observations.seat):
            seat, fields, legal, action = next(lines)
            assert int(observations.seat[row]) == seat
            assert [f for f in observation_words(game, observations.observation[row].tolist())
                    if f in fields or not f.endswith(("=-", "=-1"))] == fields  # fmt: skip
            may = [game.action_names[a] for a in np.flatnonzero(observations.legal[row])]
            assert may == legal
            assert action in legal
            actions[row] = game.action_names.index(action)
        won += game.step(state, observations, actions)[0]
    assert next(lines, None) is None, "the game is over, and the record goes on"
    assert won.tolist() == recorded.won


def test_every_game_of_the_registry_has_a_record():
    """Except sumo, which has real-valued states: tests/oracles has its golden values."""
    assert sorted(overtrick.names()) == sorted([*RECORDS, "sumo"])


@pytest.mark.parametrize("name", RECORDS)
def test_recorded_games_are_reproduced(name):
    games = parse((HERE / f"{name}.txt").read_text())
    assert len(games) >= 3
    for recorded in games:
        replay(overtrick.make(name), recorded)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("deal Q K", "deal J K"),
        ("hole=K", "hole=J"),
        ("own_chips=1 other_chips=2", "own_chips=1 other_chips=3"),
        ("betting=pass,bet", "betting=bet,pass"),
        ("1 ; hole=K", "0 ; hole=K"),
        ("; pass bet ; pass", "; pass ; pass"),
        ("; pass bet ; pass", "; pass bet ; fold"),
        ("won -2 +2", "won -1 +1"),
        ("won -2 +2", "won -2 +2 0"),
        ("won -2", "0 ; hole=Q ; pass bet ; bet\nwon -2"),
    ],
)
def test_a_wrong_record_is_detected(right, wrong):
    text = """deal Q K
0 ; hole=Q board=- own_chips=1 other_chips=1 round=0 betting=- ; pass bet ; pass
1 ; hole=K board=- own_chips=1 other_chips=1 round=0 betting=pass ; pass bet ; bet
0 ; hole=Q board=- own_chips=1 other_chips=2 round=0 betting=pass,bet ; pass bet ; bet
won -2 +2
"""
    game = overtrick.make("kuhn")
    replay(game, *parse(text))
    assert right in text
    with pytest.raises(AssertionError):
        replay(game, *parse(text.replace(right, wrong, 1)))


@pytest.mark.parametrize(
    "text", ["deal K Q\n", "won +1 -1\n", "deal K Q\ndeal Q K\n", "deal K Q\n0 passes\nwon 0 0\n"]
)
def test_a_malformed_record_is_refused(text):
    with pytest.raises(ValueError, match=r"no part of a game|no end"):
        parse(text)


def test_an_incomplete_record_is_detected():
    text = (HERE / "kuhn.txt").read_text()
    (recorded, *_) = parse(text)
    with pytest.raises(StopIteration):
        replay(overtrick.make("kuhn"), RecordedGame(recorded.deal, recorded.decisions[:1], [1, -1]))
