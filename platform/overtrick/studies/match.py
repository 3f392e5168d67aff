"""Two players meet: strangers, runs or models, on the same boards from both seats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.config.job_file import GameChoice
from overtrick.core import UserError, nearest
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.game_cache import cached_opponent, playable_game, two_seat_game
from overtrick.evaluation.reference_opponents import opponent_names, resolve_opponent
from overtrick.games import registry
from overtrick.games.bridge.auction.game import DEAL_WIDTH, UNSOLVED, Auction
from overtrick.games.bridge.cards import CARDS
from overtrick.policies.rollout import play
from overtrick.runs import lifecycle
from overtrick.storage import locate, model_files
from overtrick.storage.game_records import Games, Move, Recorder
from overtrick.studies import duplicate_match
from overtrick.training.tournament import Meeting, meet_twice


@dataclass(frozen=True)
class Match:
    """What came of it, and in which game."""

    game: str
    unit: str
    meeting: Meeting
    games: Games | None = None  # as they were played, if that was asked for


def match(
    a: str, b: str, game: str | None, options: Mapping[str, Any], boards: int, seed: int,
    video: Path | None = None, kept: bool = False,
) -> Match:  # fmt: skip
    """Each board is played twice, with the seats exchanged.

    a and b: strangers by name, runs, or folders of models. game: by name; if it is not given, that
    of a model, or the only one that knows both strangers. video: a file for one more game, in
    which a has seat 0. kept: write the games down. Raises UserError.
    """
    choice = choice_of(a, b, game, options)
    made, _ = two_seat_game(choice)
    registry.check_zero_sum(made)
    if kept and made.actions is None:
        raise UserError(f"{made.name} moves by real vectors, which are not kept: ask for a --video")
    recorder = Recorder(made) if kept else None
    film = None if video is None else registry.video_writer(made, video)
    both = (player_of(a, choice), player_of(b, choice))
    play_rng, film_rng = generator(seed, RngStream.JUDGE).spawn(2)
    if film is not None:
        film(play(made, both, 1, film_rng).batch)
    met = meet_twice(made if recorder is None else recorder, *both, boards, play_rng)
    if recorder is None:
        return Match(made.name, made.unit, met)
    who = np.tile([[0, 1], [1, 0]], (boards, 1))  # as `duplicate` seats them
    games_kept = Games(
        choice.name, choice.options, (a, b), recorder.deals, recorder.moves, who, recorder.payoff
    )
    return Match(made.name, made.unit, met, games_kept)


def record_of(played: duplicate_match.Match) -> Games:
    """The auctions of a match of bidders, worth the points of their contracts at double-dummy
    tricks; first all of the open table."""
    boards = played.boards
    deals = np.full((len(boards.holder), DEAL_WIDTH), UNSOLVED, np.int8)
    deals[:, :CARDS] = boards.holder
    deals[:, CARDS], deals[:, CARDS + 1] = boards.dealer, boards.vulnerable
    ours, moves, points = [], list[list[Move]](), []
    for side, table in enumerate((boards.open, boards.closed)):
        for calls, dealer in zip(table.calls, boards.dealer, strict=True):
            made = calls[calls >= 0]
            moves.append([Move((int(dealer) + k) % 4, int(call)) for k, call in enumerate(made)])
        ours += [[side, 1 - side] * 2] * len(table.calls)
        points += [[won, -won] * 2 for won in table.score.tolist()]
    both = (played.a, played.b)
    return Games(
        Auction.name, {"scoring": "points"}, (both[0].name, both[1].name),
        np.tile(deals, (2, 1)), moves, np.array(ours), np.array(points, np.float64),
        tuple(each.system.name for each in both),
    )  # fmt: skip


def bidder(what: str) -> Path | None:
    """The folder of a model that bids, by itself or by its run; None if it is none. Raises
    UserError for a damaged one."""
    try:
        folder = lifecycle.find_model(what)
    except UserError:  # there is no such run: it may be a system
        return None
    stored = model_files.load(folder)
    bids = any(name.startswith("calls.") for name in stored.weights)
    return folder if stored.game == "auction" and bids else None


def check_known(players: Sequence[str], others: Sequence[str]) -> None:
    """Raise UserError for a player that is no stranger of any game, no run and no folder, and name
    the nearest of the players that there are and of others."""
    scripted = {each for strangers in _strangers().values() for each in strangers}
    known = scripted | set(locate.run_names())
    for player in players:
        there = Path(player).exists() or locate.find_run(player) is not None
        if not (player in known or there or locate.is_registered(player)):
            near = nearest(player, sorted({*known, *others}))
            raise UserError(f"unknown player '{player}': did you mean '{near}'?")


def _strangers() -> dict[str, list[str]]:
    """Those of each game."""
    return {name: opponent_names(registry.make(name)) for name in registry.names()}


def player_of(what: str, choice: GameChoice) -> Any:
    """The policy of a stranger, a run or a model. Raises UserError."""
    game, _ = playable_game(choice)
    found = resolve_opponent(what, game)
    if found in opponent_names(game):
        return cached_opponent(choice, found)
    return model_files.policy(lifecycle.find_model(what), game)


def choice_of(a: str, b: str, game: str | None, options: Mapping[str, Any]) -> GameChoice:
    """The game with its options: those of a model, unless others are given. Raises UserError."""
    strangers = _strangers()
    everyone = {each for known in strangers.values() for each in known}
    for what in (a, b):
        if what not in everyone:
            stored = model_files.load(lifecycle.find_model(what))
            if game in (None, stored.game):
                theirs = stored.job.get("game", {}).get("options", {})
                trained = {n: v for n, v in theirs.items() if n != "reward"}
                both = registry.match_options(stored.game, trained | dict(options))
                return GameChoice(name=stored.game, options=both)
    name = game or _only(a, b, [g for g, known in strangers.items() if {a, b} <= set(known)])
    return GameChoice(name=name, options=registry.match_options(name, options))


def _only(a: str, b: str, common: Sequence[str]) -> str:
    """The only game that knows two strangers. Raises UserError."""
    if not common:
        raise UserError(f"no game knows both {a} and {b}: name one with --game")
    if len(common) > 1:
        raise UserError(
            f"{a} and {b} know several games: name one with --game, such as {common[0]}"
        )
    return common[0]
