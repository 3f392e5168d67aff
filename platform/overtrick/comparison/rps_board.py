"""Play the matches of the board of repeated rock, paper, scissors, and rank players and bots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import TypeAdapter

from overtrick.comparison import table_files
from overtrick.comparison.comparison_job import FinishedTable, Rows
from overtrick.comparison.rps_board_job import RpsBoardJob
from overtrick.core import UserError
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.evaluation.board import roshambo_bots as bots
from overtrick.evaluation.board import rps_players
from overtrick.evaluation.standard_error import standard_error
from overtrick.reports.progress import OnProgress
from overtrick.runs.child_runs import open_group
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import server_address

RESULTS = "opponents"  # folder of results, a file for each player
UNIT = "point"


class PlayerResult(ClosedRecord):
    """Points of a player in all rounds of a match, against each bot, by seed."""

    player: str
    points: dict[str, list[int]]


PLAYER_RESULT: TypeAdapter[Any] = TypeAdapter(PlayerResult)


class RpsRow(NamedTuple):
    """Results of a method or bot against all opponents, in points per match."""

    method: str
    told: str  # "actions": all that a player of this game can see
    budget: int  # rounds of a match
    rank: int  # by `score`, among all methods and bots
    mean_return: float  # over the opponents
    standard_error: float | None  # of `mean_return`, over the seeds
    largest_loss: float  # mean over the seeds against the opponent that wins most; at least 0
    loss_standard_error: float | None  # of this mean, over the seeds
    against: str  # this opponent
    score: float  # mean_return - largest_loss


@dataclass(frozen=True)
class FinishedRpsBoard(FinishedTable):
    """A board of rock, paper, scissors whose matches have all ended."""

    rows: list[RpsRow]
    notes: list[str]

    def legend(self) -> list[str]:
        """Return lines that explain the numbers."""
        return self.notes

    def titled_tables(self) -> list[tuple[Rows, str]]:
        """Return the ranking of players and bots."""
        return [(_shown(self.rows), "")]

    def json_results(self) -> dict[str, Any]:
        """Return the game, and a row for each player and bot."""
        rows = [row._asdict() for row in self.rows]
        return {
            "board": self.folder.name, "game": "rock, paper, scissors", "unit": UNIT, "rows": rows,
        }  # fmt: skip


def check(job: RpsBoardJob) -> int:
    """Validate a board; return its number of players. Raises UserError."""
    for name in job.methods:
        if name in bots.bot_names():
            raise UserError(f"methods.{name} has the name of a bot: choose another name")
    server_address.check(job.track.uri, experiment=job.track.experiment)
    return len(job.methods) + len(bots.bot_names())


def run(folder: RunFolder, progress: OnProgress) -> FinishedRpsBoard:
    """Play the matches that have not been played, and store the results.

    `progress`: called with the number of players whose matches have ended. Raises UserError if the
    folder is not that of such a board, or if another process works on it.
    """
    began = time.perf_counter()
    job = table_files.read_stored_job(folder, "rps_board", RpsBoardJob)
    players = [*job.methods, *bots.bot_names()]
    place = folder.path / RESULTS
    files = [place / f"{number:04d}.json" for number in range(len(players))]
    with open_group(folder, job, []) as group:
        place.mkdir(exist_ok=True)
        table_files.compute_missing(
            play_all, job, files, lambda number: (players[number],), job.workers, 0, progress
        )
        remedy = f"delete it, and `overtrick resume {folder.name}` plays these matches again"
        results = [read_json(file, PLAYER_RESULT, remedy) for file in files]
        for file, player, found in zip(files, players, results, strict=True):
            same = found["player"] == player and list(found["points"]) == opponents_of(job)
            if not same or any(len(v) != len(job.seeds) for v in found["points"].values()):
                raise UserError(f"{file} is not the result of {player} on this board: {remedy}")
        rows, notes = ranking(results), _notes(job)
        _save(job, folder, results, notes)
        scores = {table_files.cell_metric(r.method, "score"): r.score for r in rows}
        table_files.report(group, scores)
    seconds = time.perf_counter() - began
    return FinishedRpsBoard(folder, group.failed, seconds, group.undelivered, rows, notes)


def opponents_of(job: RpsBoardJob) -> list[str]:
    """Return the names of the bots against which a board evaluates its players."""
    halves = {"development": bots.development_bots, "test": bots.test_bots, "all": bots.bot_names}
    return halves[job.opponents]()


def play_all(rng: Generator, job: RpsBoardJob, player: str) -> dict[str, Any]:
    """Play the matches of a method or bot against all opponents; return a `PlayerResult`.

    The draws of a match depend only on its seed and on the bot, not on `rng`. A process of their
    own plays the matches: where Ray runs, its threads call `rand`, which has the state of the bots.
    """
    names, seeds = bots.bot_names(), list(job.seeds)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        if player in job.methods:
            opponents = {bot: names.index(bot) for bot in opponents_of(job)}
            made = job.methods[player].player
            matches = pool.submit(rps_players.play_matches, made, opponents, seeds)
        else:
            matches = pool.submit(bots.play_matches, player, opponents_of(job), seeds)
        return {"player": player, "points": matches.result()}


def ranking(results: Sequence[dict[str, Any]]) -> list[RpsRow]:
    """Rank players by mean return minus largest loss; the best comes first.

    Lanctot et al. 2023, "Population-based evaluation in repeated rock-paper-scissors", measure the
    same two numbers; here the largest loss is at least 0.
    """
    rows = []
    for each in results:
        points = np.array(list(each["points"].values()), float)  # (opponents, seeds)
        means = points.mean(axis=1)
        loss = max(0.0, float(-means.min()))
        rows.append(
            RpsRow(
                method=each["player"],
                told="actions",
                budget=bots.ROUNDS,
                rank=0,
                mean_return=float(means.mean()),
                standard_error=standard_error(points.mean(axis=0).tolist()),
                largest_loss=loss,
                loss_standard_error=standard_error(points[means.argmin()].tolist()),
                against=list(each["points"])[int(means.argmin())] if loss else "",
                score=float(means.mean()) - loss,
            )
        )
    rows.sort(key=lambda row: -row.score)
    return [row._replace(rank=1 + number) for number, row in enumerate(rows)]


def _notes(job: RpsBoardJob) -> list[str]:
    """Return lines that explain the table."""
    names = opponents_of(job)
    return [
        f"points per match of {bots.ROUNDS:,} rounds; mean over {len(names)} bots, each a mean "
        f"over {len(job.seeds)} matches; ±: standard error over the seeds",
        "largest loss: to the bot that wins most, ± over the seeds; the largest of many means is "
        "above 0 by chance, even for a player that loses to none",
        "score: mean return - largest loss",
        "a bot plays itself, too",
        f"{job.opponents} bots: {', '.join(names)}",
    ]


def _shown(rows: Sequence[RpsRow]) -> Rows:
    """Return the ranking with numbers as text, for printing."""

    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}"

    return [
        {
            "rank": str(row.rank),
            "player": row.method,
            "mean return": f"{row.mean_return:.1f}",
            "±": text(row.standard_error),
            "largest loss": f"{row.largest_loss:.1f}",
            "± ": text(row.loss_standard_error),
            "to": row.against,
            "score": f"{row.score:.1f}",
        }
        for row in rows
    ]


def _save(
    job: RpsBoardJob, folder: RunFolder, results: Sequence[dict[str, Any]], notes: list[str]
) -> None:
    """Write the results to files."""
    rows = ranking(results)
    points = [
        (each["player"], bot, seed, value)
        for each in results
        for bot, values in each["points"].items()
        for seed, value in zip(job.seeds, values, strict=True)
    ]
    content = {"rows": [row._asdict() for row in rows], "results": results, "notes": notes}
    columns = ["player", "bot", "seed", "points"]
    table_files.save_tables(folder, [(_shown(rows), "")], notes, columns, points, content)
