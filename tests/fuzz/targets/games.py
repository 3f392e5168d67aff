"""Fuzz targets: games with options, files of systems and policies, auctions, a person's input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target
from tests.fuzz.targets import jobs

from overtrick.cli import interactive as terminal
from overtrick.config.overrides import apply_overrides
from overtrick.games import registry
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.system import auction_simulation, loader, parser
from overtrick.games.sumo import agent_zoo
from overtrick.interactive import session
from overtrick.interactive.auction_game import make_auction_game
from overtrick.interactive.human_game import HumanGame, make_human_game
from overtrick.solvers.extensive import tree

GAMES = (
    ["kuhn"], ["leduc", "fold=false"], ["leduc", "ranks=3"], ["one_card", "ranks=4"], ["brps"],
    ["liars_dice", "dice=1", "faces=3"], ["minibridge", "strain=trump"], ["auction", "seats=2"],
    ["holdem"], ["kuhn_three"],
)  # fmt: skip
EFG = (
    'EFG 2 R "a game" { "A" "B" } ""\nc "ROOT" 1 "c" { "x" 0.5 "y" 0.5 } 0\n'
    'p "" 1 1 "(1,1)" { "H" "L" } 0\nt "" 1 "o" { 10.0 2.0 }\nt "" 2 "o" { 0.0 10.0 }\n'
    'p "" 2 1 "(2,1)" { "h" "l" } 0\nt "" 3 "o" { 2.0 4.0 }\nt "" 4 "o" { 4.0 0.0 }\n'
)
OPENSPIEL = (
    "kuhn_poker", "kuhn_poker(players=3)", "leduc_poker(players=2)", "tiny_hanabi",
    "goofspiel(num_cards=3,imp_info=True)", "matrix_rps", "liars_dice(numdice=1,dice_sides=2)",
    "turn_based_simultaneous_game(game=matrix_pd())",
    "add_noise(epsilon=1.,seed=1,game=kuhn_poker())",
    "start_at(history=0;1,game=kuhn_poker())",
)  # fmt: skip
LINES = (
    "",
    "1",
    "?",
    "undo",
    "quit",
    "hint",
    "fold",
    "call",
    "bet",
    "p",
    "1N",
    "raise",
    "pass",
    "x",
)


def games_with_options() -> list[Files]:
    """Return names of games with options, as words of a command line."""
    return [{"words.json": json.dumps(words).encode()} for words in GAMES]


def make_game(folder: Path) -> None:
    """Make a game with options as `match` and `play` do, and deal it."""
    name, *words = jobs.command_words(folder / "words.json") or [""]
    asked = apply_overrides({}, words)
    game = registry.make(name, **asked)
    registry.portable_options(name, asked)
    registry.payoff_unit(name, asked)
    registry.check_playable(game)
    state = game.start(game.deal(2, np.random.default_rng(0)))
    game.observe(state)


def openspiel_games() -> list[Files]:
    """Return names of OpenSpiel's games, and a game in the format EFG."""
    named = [{"name.txt": f"openspiel/{name}".encode()} for name in OPENSPIEL]
    return [*named, *[{"name.txt": b"openspiel/efg_game(filename=game.efg)",
                       "game.efg": EFG.encode()}] * 8]  # fmt: skip


def solve_openspiel(folder: Path) -> None:
    """Make a game of OpenSpiel and build its tree as `solve` does."""
    name = (
        (folder / "name.txt").read_text(errors="replace") if (folder / "name.txt").exists() else ""
    )
    if "efg_game" in name and (folder / "game.efg").exists():
        name = name.replace("game.efg", str(folder / "game.efg"))
    tree.build(registry.make(name), 1 << 26)


def zoo_files() -> list[Files]:
    """Return parameter files of AgentZoo's policies."""
    found = []
    for kind in ("mlp", "lstm"):
        shapes = agent_zoo.SHAPES[kind]
        count = sum(int(np.prod(shape)) for shape in shapes.values())
        flat = np.ones(count, np.float32)
        out = io.BytesIO()
        np.save(out, flat)
        found.append({f"zoo/{kind}/agent-params-v1.npy": out.getvalue()})
    return found


def load_zoo(folder: Path) -> None:
    """Read the policies of AgentZoo in a folder."""
    for path in sorted(folder.glob("zoo/*/*.npy")):
        agent_zoo.load(f"zoo:{path.parent.name}1", str(folder / "zoo"))


SMALL_SYSTEM = b"""\
system small
title  Natural with a weak notrump
based on natural

at opening
  1N | 12-14 hcp, balanced | Weak notrump
  2x | 5-10 hcp, x 6+, strength x 2+ if x is not C | Weak two | preempt, preemptive

at 1N (P) if unpassed
  2N | together 23-24 hcp | Invitation | notrump, invitational
  3N | together 25+ hcp, possible 25+ hcp | Game | notrump, sign-off
  2M | M 5+, M >= oM, 0-7 hcp | Weak | sign-off, rare
  2M | M 4+ | Major suit | heard

only at ... 4N (P) if agreed M
  5C | keycode M 1 | One or four key cards | answering, conventional, keycards M
  5D | anything | Other numbers | answering, conventional

at anywhere if partner M 4+, not agreed, may pass
  4M | fit M 8+, together 26+ support M | Game | raise, sign-off
"""
"""A short system with most kinds of lines."""


def systems() -> list[Files]:
    """Return files of bidding systems."""
    names = loader.system_names()
    texts = [(parser.FOLDER / f"{name}{loader.SUFFIX}").read_bytes() for name in names]
    return [{"system.bidding": each} for each in (*texts, *[SMALL_SYSTEM] * 6)]


def use_system(folder: Path) -> None:
    """Load a bidding system, and explain auctions with it."""
    system = loader.load(folder / "system.bidding")
    other = loader.load("natural")
    for text in ("1N P 2D P", "1C 1S X P", "P P P P", "2H"):
        auction_simulation.explain_calls(auction_rules.parse_calls(text), 0, 0, system, other)
    hands = np.arange(8, dtype=np.int64).reshape(2, 4)
    deals = np.array([[(1 << 13) - 1 << 13 * seat for seat in range(4)]] * 2, np.int64) + 0 * hands
    auction_simulation.bid_auctions(
        deals, np.zeros(2, np.int64), np.zeros(2, np.int64), system, other
    )


def explain_arguments() -> list[Files]:
    """Return auctions with the other arguments of the command `bridge explain`."""
    words = (["1N P 2D P", "natural", "precision", "N", "None"],
             ["P P 1C X XX P P 7N", "precision", "natural", "W", "All"])  # fmt: skip
    return [{"words.json": json.dumps(each).encode()} for each in words]


def explain(folder: Path) -> None:
    """Explain the calls of an auction as `bridge explain` does."""
    from overtrick.cli.bridge import _dealer_and_vulnerability

    words = (jobs.command_words(folder / "words.json") + [""] * 5)[:5]
    auction, system, against, dealer, vulnerable = words
    calls = auction_rules.parse_calls(auction)
    auction_rules.check_auction(calls, done=False)
    first, vulnerability = _dealer_and_vulnerability(dealer, vulnerable)
    pairs = loader.load(system), loader.load(against or system)
    auction_simulation.explain_calls(calls, first, vulnerability, *pairs)


def typed_sessions() -> list[Files]:
    """Return what a person types in a session."""
    return [
        {"typed.txt": f"{name}\n{seat}\n".encode() + "\n".join(LINES * 2).encode()}
        for name, seat in (("kuhn", "1"), ("leduc", "2"), ("auction", "S"), ("liars_dice", "1"))
    ]


_TABLES: dict[str, HumanGame] = {}


def play_session(folder: Path) -> None:
    """Play a game with the input of a person, as `play` does."""
    name, _, rest = (folder / "typed.txt").read_text(errors="replace").partition("\n")
    seat, _, typed = rest.partition("\n")
    if name not in _TABLES:
        if name == "auction":
            _TABLES[name] = make_auction_game("natural", "natural", {}, True)
        else:
            _TABLES[name] = make_human_game(name, "random", {}, True)
    table = _TABLES[name]
    number = terminal._seat_number(table, seat)
    lines = iter(typed.split("\n"))

    def read(prompt: str) -> str | None:
        line = next(lines, None)
        return None if line is None else line.strip()

    before, terminal._read_line = terminal._read_line, read
    try:
        for game in range(3):
            own = game % table.game.seats if number is None else number
            session.play_game(table, own, 0, game, terminal._AskAtTerminal(table))
    except (session.QuitRequested, session.UndoRequested):
        pass
    finally:
        terminal._read_line = before


TARGETS = (
    Target("game options", games_with_options, make_game, 6),
    Target("games of OpenSpiel", openspiel_games, solve_openspiel, 2),
    Target("AgentZoo", zoo_files, load_zoo, 4),
    Target("bidding systems", systems, use_system, 0.2),
    Target("auctions", explain_arguments, explain, 5),
    Target("a person's input", typed_sessions, play_session, 2),
)
