"""Play the matches of a board and summarise them; an interrupted board continues with the rest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.comparison import statistics, table_files
from overtrick.comparison.board_job import BoardJob
from overtrick.comparison.board_opponents import (
    check_methods,
    check_record,
    notes_on_opponents,
    read_opponents,
)
from overtrick.comparison.board_players import evaluate_method, plays
from overtrick.comparison.comparison_job import FinishedTable, Rows
from overtrick.core import UserError
from overtrick.core.files import read_text, write_text
from overtrick.core.json_files import read_json
from overtrick.evaluation.board import board_evaluation, bucket_board, opponent_files
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.standard_error import standard_error
from overtrick.games import registry
from overtrick.reports.html import elements
from overtrick.reports.html.elements import PageSection
from overtrick.reports.progress import OnProgress
from overtrick.runs.child_runs import open_group
from overtrick.storage import locate, model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import server_address

RESULTS = "opponents"  # folder of results, a file for each method, setting and opponent
CARDS = "cards"  # folder of the cards of the methods' models


@dataclass(frozen=True)
class FinishedBoard(FinishedTable):
    """A board whose matches have all ended."""

    game: str
    unit: str
    results: list[dict[str, Any]]  # see board_evaluation.OpponentResult
    notes: list[str]

    @property
    def budget(self) -> int:
        """The number of games after which the players were evaluated last."""
        games: int = self.results[0]["matches"][0]["checkpoints"][-1]["games"]
        return games

    def legend(self) -> list[str]:
        """Return lines that explain the numbers."""
        return self.notes

    def titled_tables(self) -> list[tuple[Rows, str]]:
        """Return the results by method, setting and number of games, and the shares by family."""
        games = self.budget
        families = _by_family(self.results, games)
        title = f"Share after {games} games, by family"
        return [
            (_shown(self.results), ""),
            *([(families, title)] if families else []),
            *_shown_by_seed(self.results, games),
        ]

    def json_results(self) -> dict[str, Any]:
        """Return the game, and a row for each method, setting and number of games."""
        rows = [each._asdict() for each in board_evaluation.summarise(self.results)]
        families = [each._asdict() for each in board_evaluation.summarise_families(self.results)]
        return {
            "board": self.folder.name, "game": self.game, "unit": self.unit, "rows": rows,
            "families": families, "by_seed": compare_seeds(self.results, self.budget),
        }  # fmt: skip


def compare_seeds(results: Sequence[dict[str, Any]], games: int) -> Rows:
    """Compare methods over seeds: in each setting, the one with the largest mean share with others.

    `results`: see board_evaluation.OpponentResult. The shares are those after some games. p is that
    of Welch's t test against the method with the largest mean share of the setting; None for this
    method itself. An oracle and methods that are told nothing take no part. Settings with fewer
    than two methods, or two seeds, have no rows.
    """
    found = board_evaluation.shares_by_seed(results, games)
    rows = []
    for told in SETTINGS:
        here = {name: s for (name, setting), s in found.items() if setting == told and len(s) > 1}
        if len(here) < 2:
            continue
        best = max(here, key=lambda name: float(np.mean(here[name])))
        rows += [
            {
                "method": name,
                "told": told,
                "share": float(np.mean(shares)),
                "standard_error": standard_error(shares),
                "p": None if name == best else statistics.welch_p(here[best], shares),
            }
            for name, shares in here.items()
        ]
    return rows


def _shown_by_seed(results: Sequence[dict[str, Any]], games: int) -> list[tuple[Rows, str]]:
    """Return the comparison over seeds as a table of texts with its title, if it has rows."""
    rows = [
        {
            "method": row["method"],
            "told": row["told"],
            "share": f"{row['share']:.3f}",
            "±": f"{row['standard_error']:.3f}",
            "p": "" if row["p"] is None else f"{row['p']:.2g}",
        }
        for row in compare_seeds(results, games)
    ]
    return [(rows, f"Share after {games} games, by seed")] if rows else []


def run(folder: RunFolder, progress: OnProgress) -> FinishedBoard:
    """Play the matches of a board that have not been played, and store its results.

    `progress`: called with the number of finished results, each of a method in one setting against
    one opponent. Raises UserError if the folder is not that of a board, if another process works on
    it, or if the opponents are others than when it was started.
    """
    began = time.perf_counter()
    job = table_files.read_stored_job(folder, "board", BoardJob)
    check_record(job)
    opponents = read_opponents(job)
    plan = [
        (name, told, opponent)
        for name in job.methods
        for told in job.settings_of(name)
        for opponent in opponents
        if plays(job.methods[name], opponent)
    ]
    place = folder.path / RESULTS
    files = [place / f"{number:04d}.json" for number in range(len(plan))]
    with open_group(folder, job, []) as group:
        if not place.exists():
            if job.opponents != opponent_files.DEVELOPMENT:
                opponent_files.record_use(Path(job.opponents), f"board {folder.name}")
            place.mkdir()
        table_files.compute_missing(
            evaluate_method, job, files, plan.__getitem__, job.workers, 0, progress
        )
        results = [_read(file, folder, *each) for file, each in zip(files, plan, strict=True)]
        notes = [*_notes(job), *notes_on_opponents(job)]
        _save(job, folder, results, notes)
        metrics = {
            table_files.cell_metric(each.method, f"share_{each.told}_{each.budget}"): each.share
            for each in board_evaluation.summarise(results)
            if each.share is not None
        }
        table_files.report(group, metrics)
    seconds = time.perf_counter() - began
    game = registry.make(job.game.name, **job.game.options)
    return FinishedBoard(
        folder, group.failed, seconds, group.undelivered, game.name, game.unit, results, notes
    )


def _read(
    file: Path,
    folder: RunFolder,
    method: str,
    told: str,
    opponent: BoardOpponent | BucketOpponent,
) -> dict[str, Any]:
    """Read a stored result. Raises UserError if it is damaged, or is of another opponent."""
    remedy = f"delete it, and `overtrick resume {folder.name}` plays these matches again"
    found: dict[str, Any] = read_json(file, board_evaluation.OPPONENT_RESULT, remedy)
    planned = (method, told, opponent.name, opponent.digest)
    if (found["method"], found["told"], found["opponent"], found["opponent_sha256"]) != planned:
        wanted = f"{method}, {told}, against {opponent.name}"
        raise UserError(f"{file} is not the result of {wanted}: {remedy}")
    return found


def check(job: BoardJob) -> int:
    """Validate a board; return its number of results. Raises UserError.

    A result is that of a method in one setting against one opponent.
    """
    opponents = read_opponents(job)
    check_record(job)
    check_methods(job)
    server_address.check(job.track.uri, experiment=job.track.experiment)
    return sum(
        len(job.settings_of(name)) * sum(plays(method, opponent) for opponent in opponents)
        for name, method in job.methods.items()
    )


def _notes(job: BoardJob) -> list[str]:
    """Return lines that explain the table."""
    unit = registry.payoff_unit(job.game.name, job.game.options)
    sampled = bucket_board.uses_abstraction(job.game)
    least = f"{board_evaluation.EXPLOITABLE:g} {unit}s"
    return [
        f"share: {'sampled' if sampled else 'exact'} payoff of the strategy after so many games, "
        f"divided by the best response's{' in an abstraction' * sampled}; mean over the opponents "
        f"whose best response wins {least} a game or more, each a mean over {len(job.seeds)} "
        "matches; ±: standard error over these opponents",
        "lowest: share of one opponent; other families: share of the opponents of families of "
        "which no population for training is drawn",
        "online: mean payoff of the games played until then, divided by the best response's; "
        "includes the opponents that change",
        *(
            ["exploitability: not known in a game that is too large for a tree"]
            if sampled
            else ["exploitability: of the strategy, mean and worst over all opponents and seeds"]
        ),
        "ms a game: in which the player learned and gave its strategies or answers, also at "
        "checkpoints; mean over all matches",
        "by family: points a game where the best response does not win "
        f"{least}; in training: populations for training are drawn from this family, too",
        "by seed: mean share over the opponents, mean and standard error over the seeds; p: of "
        "Welch's t test against the method of the same setting with the largest share. Seeds vary "
        "the matches, and the training only of methods with a model for each seed",
    ]


def _shown(results: Sequence[dict[str, Any]]) -> Rows:
    """Return the summary of results with numbers as text, for printing."""
    spent: dict[tuple[str, str], list[float]] = {}
    for each in results:
        if each["seconds_per_game"] is not None:
            spent.setdefault((each["method"], each["told"]), []).append(each["seconds_per_game"])

    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    return [
        {
            "method": row.method,
            "told": row.told,
            "games": row.budget,
            "share": text(row.share),
            "±": text(row.standard_error),
            "lowest": text(row.lowest_share),
            "beyond equilibrium": text(row.share_beyond_equilibrium),
            "other families": text(row.share_of_other_families),
            "online": text(row.online_share),
            "exploitability": text(row.exploitability),
            "worst": text(row.worst_exploitability),
            "ms a game": text(_mean_ms(spent.get((row.method, row.told)))),
        }
        for row in board_evaluation.summarise(results)
    ]


def _mean_ms(seconds: Sequence[float] | None) -> float | None:
    """Return the mean of durations in milliseconds, given in seconds; None without any."""
    return None if seconds is None else 1000 * float(np.mean(seconds))


def _by_family(results: Sequence[dict[str, Any]], games: int) -> Rows:
    """Return a table with a row for each family of opponents, after `games` games of each match.

    A cell is the mean share of the best-response payoff that a method wins, as text. If no opponent
    of the family is exploitable, it is the mean payoff in points per game. A column is one method
    in one setting. `results`: `OpponentResult`s. A family without results after exactly `games`
    games has no row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for each in board_evaluation.summarise_families(results):
        if each.budget == games:
            training = "yes" if each.in_training else "no"
            row = rows.setdefault(each.family, {"family": each.family, "in training": training})
            shown = f"{each.payoff:.3f} a game" if each.share is None else f"{each.share:.3f}"
            row[f"{each.method}, {each.told}"] = shown
    return list(rows.values())


def _by_opponent(results: Sequence[dict[str, Any]], games: int) -> Rows:
    """Return a row for each opponent: the best response's payoff, and that of each method.

    Opponents that change are left out.
    """
    rows: dict[str, dict[str, Any]] = {}
    for each in results:
        ends = [
            record["payoff"]
            for match in each["matches"]
            for record in match["checkpoints"]
            if record["games"] == games
        ]
        if None in ends:
            continue
        best = f"{each['best_response_payoffs'][-1]:.3f}"
        first = {"opponent": each["opponent"], "family": each["family"], "best response": best}
        row = rows.setdefault(each["opponent"], first)
        row[f"{each['method']}, {each['told']}"] = f"{np.mean(ends):.3f}"
    return list(rows.values())


def _save(
    job: BoardJob, folder: RunFolder, results: list[dict[str, Any]], notes: list[str]
) -> None:
    """Write the results, and the cards of the methods' models, to files."""
    shown = [(_shown(results), "")]
    for games in job.budgets:
        if rows := _by_family(results, games):
            shown.append((rows, f"Share after {games} games, by family"))
            payoffs = _by_opponent(results, games)
            shown.append((payoffs, f"Payoff a game after {games} games, by opponent"))
    shown += _shown_by_seed(results, job.budgets[-1])
    cards = {
        f"{name}, {label}" if label else name: read_text(
            locate.model_folder(model) / model_files.CARD
        )
        for name, method in job.methods.items()
        for label, model in method.models(job.seeds).items()
    }
    if cards:
        (folder.path / CARDS).mkdir(exist_ok=True)
    for name, card in cards.items():
        write_text(folder.path / CARDS / f"{name}.json", card)
    measured = list(board_evaluation.CheckpointRecord.__annotations__)
    names = ["method", "told", "opponent", "family", "seed", *measured]
    points = [
        (*(each[name] for name in names[:4]), match["seed"], *record.values())
        for each in results
        for match in each["matches"]
        for record in match["checkpoints"]
    ]
    summary = [row._asdict() for row in board_evaluation.summarise(results)]
    by_seed = compare_seeds(results, job.budgets[-1])
    content = {"rows": summary, "by_seed": by_seed, "results": results, "notes": notes}
    folded = [elements.folded(*card) for card in cards.items()]
    sections = [PageSection("Models", folded)] if cards else []
    table_files.save_tables(folder, shown, notes, names, points, content, sections)
