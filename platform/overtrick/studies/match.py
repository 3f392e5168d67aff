"""Matches of two players, reference opponents or stored models, each board from both seats."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.config.job_file import GameChoice
from overtrick.core import UserError, suggestion
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.game_cache import cached_opponent, playable_game, two_seat_game
from overtrick.evaluation.reference_opponents import opponent_names, resolve_opponent
from overtrick.games import registry
from overtrick.policies.rollout import play
from overtrick.reports.metric_names import opponent_label
from overtrick.storage import locate, model_files
from overtrick.storage.champions import CHAMPION_PREFIX, champion_names
from overtrick.storage.game_records import Games, Recorder
from overtrick.training.tournament import PairResult, play_duplicate_boards


@dataclass(frozen=True)
class MatchResult:
    """Result of a match, with the name and unit of the game in which it was played.

    `policies`: the players' policies, in the order of `Games.players`.
    """

    game: str
    unit: str
    meeting: PairResult
    policies: tuple[Any, Any]
    games: Games | None = None  # the recorded games, if the match was to record them


def play_match(
    a: str,
    b: str,
    game: str | None,
    options: Mapping[str, Any],
    boards: int,
    seed: int,
    video: Path | None = None,
    record: bool = False,
) -> MatchResult:
    """Play a match of two players: each board twice, with the seats exchanged.

    - `a`, `b`: reference opponents by name, champions, runs, or model folders.
    - `game`: the name of the game; None: the game of a model, or the only game that has both
      reference opponents.
    - `options`: options of the game.
    - `boards`: number of boards.
    - `video`: a file for a video of one more game, with `a` in seat 0.
    - `record`: return the games as well.

    Raises UserError.
    """
    choice = choose_game(a, b, game, options)
    made, _ = two_seat_game(choice)
    registry.check_zero_sum(made)
    if record and made.actions is None:
        raise UserError(f"{made.name} has real-vector actions, which cannot be saved: use --video")
    recorder = Recorder(made) if record else None
    write_video = None if video is None else registry.video_writer(made, video)
    players = (load_player(a, choice), load_player(b, choice))
    play_rng, video_rng = generator(seed, RngStream.EVALUATE).spawn(2)
    if write_video is not None:
        write_video(play(made, players, 1, video_rng).batch)
    meeting = play_duplicate_boards(recorder or made, *players, boards, play_rng)
    games, names = None, (opponent_label(a), opponent_label(b))
    if recorder is not None:
        who = np.tile([[0, 1], [1, 0]], (boards, 1))  # (games, S): seats are exchanged
        recorded = (recorder.deals, recorder.moves, who, recorder.payoff)
        games = Games(choice.name, choice.options, names, *recorded)
    return MatchResult(made.name, made.unit, meeting, players, games)


def check_players(players: Sequence[str], others: Sequence[str]) -> None:
    """Raise UserError unless all players exist; the message names the most similar player.

    A player is a reference opponent of any game, a champion, a run, a path, or a registered model.
    `others`: further names that the message may propose.
    """
    reference = {name for names in _opponents_by_game().values() for name in names}
    known = reference | {
        *locate.run_names(),
        *(f"{CHAMPION_PREFIX}{name}" for name in champion_names()),
    }
    for player in players:
        exists = os.path.exists(player) or locate.find_run(player) is not None
        if not (player in known or exists or locate.is_registered(player)):
            hint = suggestion(player, sorted({*known, *others}))
            raise UserError(f"unknown player '{player}': {hint}")


def _opponents_by_game() -> dict[str, list[str]]:
    """Return the names of the reference opponents of each game."""
    return {name: opponent_names(registry.make(name)) for name in registry.names()}


def load_player(what: str, choice: GameChoice) -> Any:
    """Return the policy of a reference opponent, a champion, a run or a model folder in a game.

    `choice`: the game and its options. Raises UserError.
    """
    game, _ = playable_game(choice)
    name = resolve_opponent(what, game)
    if name in opponent_names(game):
        return cached_opponent(choice, name)
    return model_files.policy(locate.existing_model(what), game)


def choose_game(a: str, b: str, game: str | None, options: Mapping[str, Any]) -> GameChoice:
    """Return the game of a match between players `a` and `b`, with its options.

    `game`: the name of the game; None: find it. If a player is a model, its game and options are
    used, except its training options. `options` override the model's. Raises UserError.
    """
    opponents = _opponents_by_game()
    reference = {name for names in opponents.values() for name in names}
    for player in (a, b):
        if player not in reference:
            stored = model_files.load(locate.existing_model(player))
            if game in (None, stored.game):
                kept = registry.without_training_options(stored.game, stored.game_options)
                both = registry.match_options(stored.game, kept | dict(options))
                return GameChoice(name=stored.game, options=both)
    name = game or _only_game(a, b, [g for g, names in opponents.items() if {a, b} <= set(names)])
    return GameChoice(name=name, options=registry.match_options(name, options))


def _only_game(a: str, b: str, games: Sequence[str]) -> str:
    """Return the only game in `games`. Raises UserError if there is none or more than one.

    `games`: the games that have both reference opponents `a` and `b`.
    """
    if not games:
        raise UserError(f"no game has both {a} and {b}: name one with --game")
    if len(games) > 1:
        raise UserError(f"several games have {a} and {b}: name one with --game, such as {games[0]}")
    return games[0]
