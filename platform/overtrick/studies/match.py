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
from overtrick.policies.rollout import play
from overtrick.runs import lifecycle
from overtrick.storage import locate, model_files
from overtrick.storage.game_records import Games, Recorder
from overtrick.training.tournament import PairResult, play_duplicate_boards


@dataclass(frozen=True)
class Match:
    """What came of it, and in which game."""

    game: str
    unit: str
    meeting: PairResult
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
    play_rng, film_rng = generator(seed, RngStream.EVALUATE).spawn(2)
    if film is not None:
        film(play(made, both, 1, film_rng).batch)
    met = play_duplicate_boards(made if recorder is None else recorder, *both, boards, play_rng)
    if recorder is None:
        return Match(made.name, made.unit, met)
    who = np.tile([[0, 1], [1, 0]], (boards, 1))  # as `play_duplicate` seats them
    games_kept = Games(
        choice.name, choice.options, (a, b), recorder.deals, recorder.moves, who, recorder.payoff
    )
    return Match(made.name, made.unit, met, games_kept)


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
