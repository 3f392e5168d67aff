"""Recorded games, replayed line by line. GAME.txt holds a few games that a reader can check by
hand from the rules. To add a game to the registry, write one.

    deal CARD ...                          the deal's columns in their order
    SEAT ; FACT=VALUE ... ; ACTION ... ; ACTION      who acts, all that the seat knows, what
                                                     it may do, what it does
    won POINTS ...                         what each seat has won; the game is over

Seats that act at once stand in the order of the seats. A line that starts with # is a comment.
Facts that are -1 may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import overtrick
from overtrick.games.bridge.auction.game import VULNERABILITIES
from overtrick.games.bridge.cards import SEATS, STRAINS, format_hand, parse_deal
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table

HERE = Path(__file__).parent
RECORDS = sorted(path.stem for path in HERE.glob("*.txt"))


@dataclass
class Recorded:
    """One game as it stands in its file."""

    deal: list
    decisions: list  # (seat, facts, legal actions, action) each, as words
    won: list


def parse(text):
    """The games of a file. Raises ValueError at a line that is none of the four kinds."""
    games, deal, decisions = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, rest = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if kind == "deal" and deal is None:
            deal = rest.split()
        elif kind == "won" and deal is not None:
            games.append(Recorded(deal, decisions, [float(points) for points in rest.split()]))
            deal, decisions = None, []
        elif kind.isdigit() and deal is not None and line.count(";") == 3:
            seat, facts, legal, action = (part.split() for part in line.split(";"))
            decisions.append((int(*seat), facts, legal, *action))
        else:
            raise ValueError(f"line {number} is no part of a game: {line}")
    if deal is not None:
        raise ValueError("the last game has no end")
    return games


def card(game, number):
    """A card as it is written: its rank (and suit, where suits matter), or - for none."""
    return game.card_name(number) or "-"


def betting(game, node):
    """The actions that led to a node of the betting table."""
    return ",".join(game.action_names[a] for a in game.betting.history[node]) or "-"


def bridge_card(game, number):
    return game.action_names[number] if number >= 0 else "-"


def bridge_cards(game, cards):
    return format_hand(cards)


def strain(game, number):
    return STRAINS[number]


WORDS = {
    "hole": card, "board": card, "betting": betting, "own": bridge_cards, "shown": bridge_cards,
    "played": bridge_cards, "trick": bridge_card, "strain": strain,
}  # fmt: skip
"""Facts that are written in words, hole_1 like hole; all others are written as numbers."""


def word(game, fact, value):
    """One fact as it is written."""
    say = WORDS.get(fact.partition("_")[0]) if fact != "own_chips" else None
    return f"{fact}={say(game, value) if say else value}"


def told(game, seen):
    """The facts of a row as they are written."""
    known = zip(game.observation_fields, seen, strict=True)
    return [word(game, fact, value) for fact, value in known]


def dealt(game, words):
    """The columns of a deal: cards by name; of bridge, the hands from the declarer's on, the
    strain, and the tricks to be made; of its auction, the hands from North's on, dealer,
    vulnerability, and the double-dummy tricks as rows.py writes them."""
    if game.name == "minibridge":
        *hands, called, needed = words
        return [*parse_deal("N:" + " ".join(hands)), STRAINS.index(called), int(needed)]
    if game.name == "auction":
        *hands, dealer, vulnerable, digits = words
        column = SEATS.index(dealer), VULNERABILITIES.index(vulnerable)
        return [*parse_deal("N:" + " ".join(hands)), *column, *parse_trick_table(digits).ravel()]
    if not words:
        return []
    if words[0].isdigit() and not hasattr(game, "card_name"):
        return [int(column) for column in words]
    deck = game.rules.ranks * (1 if game.fold else game.rules.suits)
    cards = {card(game, c): c for c in range(deck)}
    return [cards[c] for c in words]


def replay(game, recorded):
    """Play a recorded game and compare everything that it says."""
    state = game.start(np.array([dealt(game, recorded.deal)], np.int64))
    won = np.zeros(game.seats)
    lines = iter(recorded.decisions)
    while len(observations := game.observe(state)):
        actions = np.empty(len(observations), np.int64)
        for row in np.argsort(observations.seat):
            seat, facts, legal, action = next(lines)
            assert int(observations.seat[row]) == seat
            assert [f for f in told(game, observations.observation[row].tolist())
                    if f in facts or not f.endswith(("=-", "=-1"))] == facts  # fmt: skip
            may = [game.action_names[a] for a in np.flatnonzero(observations.legal[row])]
            assert may == legal
            assert action in legal
            actions[row] = game.action_names.index(action)
        won += game.step(state, observations, actions)[0]
    assert next(lines, None) is None, "the game is over, and the record goes on"
    assert won.tolist() == recorded.won


def test_every_game_of_the_registry_has_a_record():
    """But for sumo, which goes on in real numbers: its golden values are in tests/oracles."""
    assert sorted(overtrick.names()) == sorted([*RECORDS, "sumo"])


@pytest.mark.parametrize("name", RECORDS)
def test_recorded_games_go_as_they_were_recorded(name):
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
def test_a_record_that_is_wrong_anywhere_is_caught(right, wrong):
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
def test_a_record_that_is_no_game_is_refused(text):
    with pytest.raises(ValueError, match=r"no part of a game|no end"):
        parse(text)


def test_a_record_that_breaks_off_is_caught():
    text = (HERE / "kuhn.txt").read_text()
    (recorded, *_) = parse(text)
    with pytest.raises(StopIteration):
        replay(overtrick.make("kuhn"), Recorded(recorded.deal, recorded.decisions[:1], [1, -1]))
