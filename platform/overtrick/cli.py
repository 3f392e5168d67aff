"""The command line: read what is asked for, call one room, print what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from overtrick import environment

environment.prepare()  # before numpy and Ray are imported

import typer
from rich.console import Console
from rich.table import Table
from typer.exceptions import TyperException

from overtrick import tables
from overtrick.core import Failed, Refused, nearest

if TYPE_CHECKING:
    from overtrick.config import Job

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train players of imperfect-information games, on a laptop or on a Ray cluster.",
)
INTERRUPTED = 130  # exit code
PLANS = (
    "cfr, cfr+, linear, dcfr, cfr-simultaneous, cfr+-simultaneous, linear-simultaneous, "
    "dcfr-simultaneous, external, outcome, lp"
)
people = Console(stderr=True)  # progress and tables; results for scripts go to standard output
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last output line.")]
GameName = Annotated[str, typer.Argument(metavar="GAME", help="A game of `overtrick list`.")]


def main() -> None:
    """Run a command; an error is one line: exit code 2 for bad input, 1 for work that failed."""
    wrong = 2
    resumes = sys.argv[1:2] == ["train"]
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # how Typer tells of Ctrl-C
            more = "; `overtrick train --resume RUN` goes on from the last checkpoint"
            people.print(f"stopped{more if resumes else ''}", soft_wrap=True)
        sys.exit(code if isinstance(code, int) else 0)
    except Refused as error:
        line = " ".join(str(error).split())
    except TyperException as error:
        line = error.format_message()
    except Failed as error:
        wrong, line = 1, " ".join(str(error).split())
    except OSError as error:  # a full disk, a folder that went away
        wrong, line = 1, str(error)
        if resumes:
            line += "; what was written before is whole, so `--resume RUN` goes on"
    print(f"error: {line}", file=sys.stderr)
    if "--json" in sys.argv:
        print(json.dumps({"error": line}))
    sys.exit(wrong)


@app.command()
def train(
    job: Annotated[
        Path | None, typer.Argument(help="A job file, such as jobs/leduc_meta.yaml.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value by dotted path.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run instead.")] = None,
    as_json: Json = False,
) -> None:
    """Train a job as one Tune trial, tracked in MLflow. `overtrick keys TRAINER` lists its keys."""
    from overtrick import run
    from overtrick.progress import Bar

    plan, folder = _job_or_run("train", job, overrides, resume)
    run.check(plan)
    folder = folder or run.open_folder(plan, job.stem)  # type: ignore[union-attr]
    with Bar(people, folder.name, plan.stop.iterations) as bar:
        done = run.go(folder, bar.show)
    people.print(tables.evaluation(done.rows, done.unit))
    people.print(
        f"run {folder.name}: trained in {done.seconds:.0f} s; model in {folder}/model",
        soft_wrap=True,
    )
    if done.undelivered:
        people.print(
            f"MLflow has not taken {done.undelivered}; they wait in {folder} and go out with "
            f"`overtrick train --resume {folder.name}`"
        )
    if done.rejected:
        people.print(f"MLflow refuses {done.rejected} events: see {folder}/track.rejected")
    program = Path(sys.argv[0])
    people.print(f"dashboard: {program} dashboard --uri {plan.track.uri}", soft_wrap=True)
    _result(
        as_json,
        run=folder.name,
        model=str(folder / "model"),
        seconds=done.seconds,
        metrics=done.metrics,
    )


@app.command()
def sweep(
    job: Annotated[Path | None, typer.Argument(help="A job file with a search.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value by dotted path.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this sweep instead.")] = None,
    as_json: Json = False,
) -> None:
    """Train a job with every combination of what its search names, side by side; best first."""
    from overtrick import sweep as room
    from overtrick.progress import Bar

    plan, folder = _job_or_run("sweep", job, overrides, resume)
    iterations = room.check(plan, str(job or resume))
    folder = folder or room.open_folder(plan, job.stem)  # type: ignore[union-attr]
    with Bar(people, folder.name, iterations) as bar:
        done = room.go(folder, lambda told: bar.show(told, {}))
    people.print(tables.plain(done.rows, "score: larger is better"))
    best = room.place_of(folder, done.rows[0]["trial"])
    people.print(
        f"{len(done.rows)} trials in {done.seconds:.0f} s, median score {done.median:.4g}; "
        f"best: {best}",
        soft_wrap=True,
    )
    if done.undelivered:
        people.print(f"MLflow has not taken {done.undelivered} events; they wait in {folder}")
    for line in done.failed:
        people.print(line, style="red")
    _result(
        as_json,
        run=folder.name, best=str(best), median=done.median, seconds=done.seconds, rows=done.rows,
    )  # fmt: skip
    if done.failed:
        raise Failed(f"{len(done.failed)} of {len(done.rows)} trials failed; see above")


@app.command()
def evaluate(
    what: Annotated[str, typer.Argument(metavar="RUN", help="A run, or the folder of a model.")],
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    as_json: Json = False,
) -> None:
    """Judge a stored model again: payoff against strangers, beside the exact best response."""
    from overtrick import run

    rows, game, unit = run.judge(what, workers)
    people.print(tables.evaluation(rows, unit))
    _result(as_json, game=game, unit=unit, rows=rows)


@app.command()
def solve(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="As `overtrick list` has it, or openspiel/NAME.")
    ],
    plan: Annotated[str, typer.Option(help=PLANS)] = "cfr+",
    iterations: Annotated[
        int, typer.Option(min=1, help="Iterations, every seat once each; lp needs none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="For the plans that sample.")] = 0,
    memory: Annotated[
        float | None, typer.Option(help="GiB that the tree may take; else what is free.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="A folder to keep the strategy in, as a model.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Approach an equilibrium, or find it by the linear program; say how close it is."""
    from overtrick.progress import counting
    from overtrick.trainers.exact import solve_game

    exact = plan == "lp"
    with counting(people, game, 1 if exact else iterations) as progress:
        answer = solve_game(game, plan, iterations, seed, memory, save, progress)
    how = "by the linear program" if exact else f"after {iterations} iterations of {plan}"
    people.print(
        f"{game}: exploitability {answer['exploitability']:.3g} {how} "
        f"in {answer['seconds']:.2f} s; values {answer['values']}",
        soft_wrap=True,
    )
    _result(as_json, **answer)


@app.command("best-response")
def best_response(
    game: GameName,
    against: Annotated[str, typer.Option(help="A stranger, or the folder of a model.")],
    as_json: Json = False,
) -> None:
    """The most that anyone can win against an opponent, exactly, in each seat."""
    from overtrick.trainers.exact import best_response_to

    answer = best_response_to(game, against)
    values = ", ".join(f"{v:.4f}" for v in answer["values"])
    people.print(
        f"{game} against {against}: {values} by seat, {answer['mean']:.4f} {answer['unit']}"
    )
    _result(as_json, **answer)


@app.command()
def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="abstraction.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, such as seed=1.")
    ] = None,
    buckets: Annotated[int, typer.Option(min=1, help="Buckets of like hands a round.")] = 6,
    out: Annotated[Path | None, typer.Option(help="The file to write.")] = None,
    samples_scale: Annotated[
        float, typer.Option(help="Every sample count times this; 1 is the paper's.")
    ] = 1.0,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    as_json: Json = False,
) -> None:
    """Work out once what jobs need: the card abstraction of limit hold'em. Stopped, it goes on."""
    from overtrick import progress
    from overtrick.trainers import generate as page

    path = out or Path(f"abstractions/holdem-{buckets}.parquet")
    with progress.stages(people) as told:
        asked = [f"buckets={buckets}", *(overrides or [])]
        done = page.generate(kind, path, asked, samples_scale, workers, told)
    people.print(f"{done['path']}: {done['rows']} rows in {done['seconds']:.0f} s", soft_wrap=True)
    _result(as_json, **done)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The games, their opponents, the trainers, and the runs on this machine."""
    from overtrick import games, run
    from overtrick.trainers import TRAINERS
    from overtrick.trainers.strangers import names

    table = Table("game", "seats", "actions", "information sets", "unit", "opponents")
    known = []
    for name in games.names():
        game = games.make(name)
        opponents = names(game)
        known.append({"name": name, "unit": game.unit, "opponents": opponents})
        actions = " ".join(game.action_names)
        table.add_row(
            name, str(game.seats), actions, str(game.infosets), game.unit, " ".join(opponents)
        )
    people.print(table)
    people.print(f"solved, not played: {' '.join(games.judged())} openspiel/NAME")
    people.print(f"plans of solve: {PLANS}", soft_wrap=True)
    runs = sorted(p.parent.name for p in run.home().glob("*/job.json"))
    people.print(f"trainers: {' '.join(TRAINERS)}")
    people.print(f"runs in {run.home()}: {' '.join(runs) or 'none'}")
    _result(as_json, games=known, plans=PLANS.split(", "), trainers=list(TRAINERS), runs=runs)


@app.command("keys")
def keys_(trainer: Annotated[str, typer.Argument(help="Such as meta.")]) -> None:
    """Every key of a trainer's job file, with its default and meaning."""
    from overtrick.config import keys
    from overtrick.trainers import JOBS

    if trainer not in JOBS:
        raise Refused(f"unknown trainer '{trainer}': did you mean '{nearest(trainer, JOBS)}'?")
    table = Table("key", "default", "meaning")
    for name, default, meaning in keys(JOBS[trainer]):
        table.add_row(name, default, meaning)
    people.print(table)


@app.command()
def dashboard(
    uri: Annotated[str, typer.Option(help="The tracking store.")] = "sqlite:///mlflow.db",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Open MLflow's dashboard on http://127.0.0.1:PORT until Ctrl-C."""
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    people.print(f"starting http://127.0.0.1:{port} (a moment)")
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)


def _job_or_run(
    command: str, job: Path | None, overrides: list[str] | None, resume: str | None
) -> tuple[Job, Path | None]:
    """The job of a file, or that of a run and its folder."""
    from overtrick import run
    from overtrick.config import load
    from overtrick.trainers import JOBS

    if (job is None) == (resume is None):
        raise Refused(f"{command} needs a job file, or --resume RUN")
    if job is not None:
        return load(job, overrides or [], JOBS), None
    assert resume is not None
    folder = run.find(resume)
    return run.read_job(folder), folder


def _result(as_json: bool, **values: Any) -> None:
    if as_json:
        print(json.dumps(values), flush=True)
