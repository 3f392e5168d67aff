"""The command line: read what is asked for, call one room, print what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from overtrick import environment

environment.prepare()  # before numpy and Ray are imported

import typer
from rich.console import Console
from rich.table import Table
from typer.exceptions import TyperException

from overtrick.core import Failed, Refused, nearest

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train players of imperfect-information games, on a laptop or on a Ray cluster.",
)
people = Console(stderr=True)  # progress and tables; results for scripts go to standard output
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last output line.")]
GameName = Annotated[str, typer.Argument(metavar="GAME", help="A game of `overtrick list`.")]


def main() -> None:
    """Run a command; an error is one line: exit code 2 for bad input, 1 for work that failed."""
    wrong = 2
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except KeyboardInterrupt:
        people.print("stopped; `overtrick train --resume RUN` goes on from the last checkpoint")
        sys.exit(130)
    except Refused as error:
        line = " ".join(str(error).split())
    except TyperException as error:
        line = error.format_message()
    except Failed as error:
        wrong, line = 1, " ".join(str(error).split())
    except OSError as error:  # a full disk, a folder that went away
        wrong, line = 1, f"{error}; what was written before is whole, so `--resume RUN` goes on"
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
    from overtrick.config import load
    from overtrick.progress import Bar
    from overtrick.trainers import JOBS

    if (job is None) == (resume is None):
        raise Refused("train needs a job file, or --resume RUN")
    if resume is not None:
        folder = run.find(resume)
        plan = run.read_job(folder)
        run.check(plan)
    else:
        plan = load(job, overrides or [], JOBS)  # type: ignore[arg-type]
        run.check(plan)
        folder = run.open_folder(plan, job.stem)  # type: ignore[union-attr]
    with Bar(people, folder.name, plan.stop.iterations) as bar:
        done = run.go(folder, bar.show)
    _show_rows(done.rows, done.unit)
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
def evaluate(
    what: Annotated[str, typer.Argument(metavar="RUN", help="A run, or the folder of a model.")],
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    as_json: Json = False,
) -> None:
    """Judge a stored model again: payoff against strangers, beside the exact best response."""
    from overtrick import run

    rows, game, unit = run.judge(what, workers)
    _show_rows(rows, unit)
    _result(as_json, game=game, unit=unit, rows=rows)


@app.command()
def solve(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="As `overtrick list` has it, or openspiel/NAME.")
    ],
    plan: Annotated[str, typer.Option(help="cfr, cfr+, linear, dcfr, external, ..., lp.")] = "cfr+",
    iterations: Annotated[
        int, typer.Option(min=1, help="Iterations, every seat once each.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="For the plans that sample.")] = 0,
    memory: Annotated[
        float | None, typer.Option(min=0.001, help="GiB that the tree may take; else what is free.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the strategy here, as a model.")] = None,
    as_json: Json = False,
) -> None:
    """Approach an equilibrium, or find it by the linear program; say how close it is."""
    from overtrick.progress import counting
    from overtrick.trainers.exact import solve_game

    with counting(people, game, iterations) as progress:
        answer = solve_game(game, plan, iterations, seed, memory, save, progress)
    people.print(
        f"{answer['game']}: exploitability {answer['exploitability']:.3g} after "
        f"{answer['iterations']} iterations of {plan} in {answer['seconds']:.2f} s; "
        f"values {answer['values']}"
    )
    _result(as_json, **answer)


@app.command("best-response")
def best_response(
    game: GameName,
    against: Annotated[str, typer.Option(help="A stranger, or the folder of a model.")],
    games: Annotated[int | None, typer.Option(min=4, help="Of a lower bound: 2000.")] = None,
    particles: Annotated[int | None, typer.Option(min=1, help="Of a lower bound: 100.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of a lower bound: 0.")] = None,
    as_json: Json = False,
) -> None:
    """The most that anyone can win against an opponent in each seat; exact if a tree fits.

    Of a larger game (holdem) a lower bound: what a local best response wins in sampled games.
    """
    from overtrick.trainers.exact import best_response_to

    asked = {"games": games, "particles": particles, "seed": seed}
    answer = best_response_to(game, against, {k: v for k, v in asked.items() if v is not None})
    said = ", ".join(f"{v:.4f}" for v in answer["values"])
    said += f" by seat, {answer['mean']:.4f} {answer['unit']}"
    if answer["kind"] == "lower bound":
        low, high = answer["interval"]
        said = f"at least {said} (a lower bound, {low:.4f} to {high:.4f} with 95 %)"
    people.print(f"{game} against {against}: {said}")
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
        actions, sets = " ".join(game.action_names), str(game.infosets or "too many")
        table.add_row(name, str(game.seats), actions, sets, game.unit, " ".join(opponents))
    people.print(table)
    people.print(f"solved, not played: {' '.join(games.judged())} openspiel/NAME")
    runs = sorted(p.parent.name for p in run.home().glob("*/job.json"))
    people.print(f"trainers: {' '.join(TRAINERS)}")
    people.print(f"runs in {run.home()}: {' '.join(runs) or 'none'}")
    _result(as_json, games=known, trainers=list(TRAINERS), runs=runs)


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


def _show_rows(rows: Sequence[Mapping[str, Any]], unit: str) -> None:
    """The table of an evaluation."""
    if rows and "steps" in rows[0]:
        _show_adaptation(rows, unit)
    elif rows:
        table = Table(*rows[0], title=f"in {unit}s a game")
        for row in rows:
            table.add_row(*map(_short, row.values()))
        people.print(table)


def _short(entry: Any) -> str:
    if isinstance(entry, list):
        return " ".join(map(_short, entry))
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)


def _show_adaptation(rows: Sequence[Mapping[str, Any]], unit: str) -> None:
    """Payoffs before and after each step, beside the best response."""
    steps = len(rows[0]["steps"])
    after = [f"after {k}" for k in range(1, steps)]
    first = "before" if after else "payoff"
    table = Table("stranger", first, *after, "best response", "share", title=f"{unit} a game")
    for row in rows:
        payoffs = [
            f"{p:.3f} ± {e:.3f}" if e > 1e-9 else f"{p:.3f}"
            for p, e in zip(row["steps"], row["standard_error"], strict=True)
        ]
        share = "" if row["share"] is None else f"{row['share']:.0%}"
        table.add_row(row["stranger"], *payoffs, f"{row['best_response']:.3f}", share)
    people.print(table)


def _result(as_json: bool, **values: Any) -> None:
    if as_json:
        print(json.dumps(values), flush=True)
