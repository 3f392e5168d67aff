"""Commands about runs: train, sweep, evaluate, register, and how safe a model is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overtrick.cli import Json, app, people, result
from overtrick.core import UserError
from overtrick.reports import tables

if TYPE_CHECKING:
    from overtrick.config.job_file import Job
    from overtrick.storage.run_folder import RunFolder


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
    from overtrick.reports.progress import Bar
    from overtrick.runs import lifecycle

    plan, folder = _job_or_run("train", job, overrides, resume)
    lifecycle.check_job(plan)
    folder = folder or lifecycle.open_folder(plan, job.stem)  # type: ignore[union-attr]
    with Bar(people, folder.name, plan.stop.iterations) as bar:
        done = lifecycle.train(folder, bar.show)
    people.print(tables.evaluation(done.rows, done.unit))
    people.print(
        f"run {folder.name}: trained in {done.seconds:.0f} s; model in {folder.model}",
        soft_wrap=True,
    )
    if done.undelivered:
        people.print(
            f"MLflow has not taken {done.undelivered}; they wait in {folder} and go out with "
            f"`overtrick train --resume {folder.name}`"
        )
    if done.rejected:
        people.print(f"MLflow refuses {done.rejected} events: see {folder.rejected_events}")
    program = Path(sys.argv[0])
    program = Path("overtrick") if program.name == "__main__.py" else program
    people.print(f"dashboard: {program} dashboard --run {folder.name}", soft_wrap=True)
    result(
        as_json,
        run=folder.name,
        model=str(folder.model),
        seconds=done.seconds,
        metrics=done.metrics,
    )


@app.command()
def sweep(
    job: Annotated[Path | None, typer.Argument(help="A job file with a search.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value by dotted path.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this sweep instead.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Have this cluster do it: as `submit --sweep --follow`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a job in the ways that its search names, side by side; the best first."""
    if address is not None:
        from overtrick.cli.cluster import submit

        there = os.environ.get("OVERTRICK_RUNS", "")
        submit(job, overrides, address, there, resume is None, resume, True, False, as_json)
    from overtrick.reports.progress import Bar
    from overtrick.runs import lifecycle
    from overtrick.sweeps import sweep as room

    plan, folder = _job_or_run("sweep", job, overrides, resume)
    iterations = room.check(plan, str(job or resume))
    folder = folder or lifecycle.open_folder(plan, job.stem, children=True)  # type: ignore[union-attr]
    with Bar(people, folder.name, iterations) as bar:
        done = room.run(folder, lambda told: bar.show(told, {}))
    shown = [{key: row[key] for key in row if key != "schedule"} for row in done.rows]
    people.print(tables.plain(shown, "score: larger is better"))
    scored = [row["trial"] for row in done.rows if row["score"] is not None]
    best = str(folder.child(scored[0])) if scored else None
    median = "none" if done.median is None else f"{done.median:.4g}"
    people.print(
        f"{len(done.rows)} trials in {done.seconds:.0f} s, median score {median}; best: {best}",
        soft_wrap=True,
    )
    if done.undelivered:
        people.print(f"MLflow has not taken {done.undelivered} events; they wait in {folder}")
    for line in done.failed:
        people.print(line, style="red")
    result(
        as_json,
        run=folder.name, best=best, median=done.median, seconds=done.seconds, rows=done.rows,
        failed=done.failed,
    )  # fmt: skip
    if done.failed:
        raise typer.Exit(1)


@app.command()
def resume(
    what: Annotated[str, typer.Argument(metavar="RUN", help="A run, a sweep or a table.")],
    as_json: Json = False,
) -> None:
    """Go on with what was cut short, from its last checkpoints."""
    from overtrick.runs import lifecycle

    kind, whole = lifecycle.kind_of(lifecycle.find(what))
    if kind == "run":
        train(None, None, str(whole), as_json)
    elif kind == "sweep":
        sweep(None, None, str(whole), None, as_json)
    else:
        _compare(whole, None, [], as_json)


@app.command()
def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help="A run, a model's folder, or a table's job file."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, for a table.")] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Ray workers; 0 = none.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this table instead.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a stored model again, or train and judge every method of a table such as
    jobs/table2.yaml against every stranger."""
    from overtrick.runs import lifecycle

    if (what is None) == (resume is None):
        raise UserError("evaluate needs a run, a model, a table's job file, or --resume TABLE")
    if resume is not None:
        _compare(lifecycle.find(resume), None, overrides or [], as_json)
    elif what is not None and what.endswith((".yaml", ".yml")):
        told = overrides or []
        told += [] if workers is None else [f"workers={workers}"]
        _compare(None, Path(what), told, as_json)
    elif what is not None:
        if overrides:
            raise UserError(f"override '{overrides[0]}': a model is judged as its job says")
        rows, game, unit = lifecycle.evaluate_stored(what, workers or 0)
        people.print(tables.evaluation(rows, unit))
        result(as_json, game=game, unit=unit, rows=rows)


def _compare(
    folder: RunFolder | None, job: Path | None, overrides: list[str], as_json: bool
) -> None:
    """Work on a table, a new one or that of a folder."""
    from overtrick.comparison import runner, schedule, statistics
    from overtrick.comparison import table_job as page
    from overtrick.reports.progress import Bar
    from overtrick.runs import lifecycle

    table = page.load(job, overrides) if job is not None else runner.read_job(folder)  # type: ignore[arg-type]
    total = schedule.check(table)
    folder = folder or lifecycle.open_folder(table, job.stem, children=True)  # type: ignore[union-attr]
    with Bar(people, folder.name, total) as bar:
        done = runner.run(folder, lambda told: bar.show(told, {}))
    found = done.outcome
    people.print(tables.plain(statistics.wide(found)))
    if found.against_baselines:
        people.print(tables.plain(found.against_baselines, "ours against the baselines' mean"))
    for line in (*found.notes, f"{folder.markdown_table} in {done.seconds:.0f} s"):
        people.print(line, soft_wrap=True, highlight=False)
    if done.undelivered:
        people.print(f"MLflow has not taken {done.undelivered} events; they wait in {folder}")
    for line in done.failed:
        people.print(line, style="red")
    result(
        as_json,
        run=folder.name, game=found.game, unit=found.unit, rows=found.rows,
        against_baselines=found.against_baselines, seconds=done.seconds, failed=done.failed,
    )  # fmt: skip
    if done.failed:
        raise typer.Exit(1)


@app.command()
def register(
    run: Annotated[str, typer.Argument(help="A run that is done.")],
    name: Annotated[str, typer.Argument(help="What its model is to be called.")],
    alias: Annotated[
        str | None, typer.Option(help="Comes to mean this version, such as champion.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let the model of a run stand in MLflow's registry: wherever a run is asked for, it then goes
    by models:/NAME/VERSION or models:/NAME@ALIAS."""
    from overtrick.runs.lifecycle import register as stand

    version = stand(run, name, alias)
    also = f", models:/{name}@{alias}" if alias else ""
    people.print(f"models:/{name}/{version}{also}", soft_wrap=True)
    result(as_json, run=run, name=name, version=version, alias=alias)


@app.command()
def safety(
    what: Annotated[str, typer.Argument(metavar="RUN", help="A run, or the folder of a model.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, such as evaluate.bound_method=nearest.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Strangers, as call,bluff; else those of the job.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the figure; else the figures of the run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What a model that adapts wins, by how much it may lose; beside the most that so little buys.

    The most comes from restricted Nash responses, from an equilibrium to the best response.
    """
    from overtrick.studies.safety import judge_safety

    names = [] if against is None else against.split(",")
    answer, folder = judge_safety(what, names, overrides or [], workers, out)
    people.print(tables.safety(answer["rows"], answer["unit"]))
    if folder is not None:
        people.print(f"figure and numbers: {folder}/safety.png, safety.json", soft_wrap=True)
    result(as_json, **answer)


def _job_or_run(
    command: str, job: Path | None, overrides: list[str] | None, resume: str | None
) -> tuple[Job, RunFolder | None]:
    """The job of a file, or that of a run and its folder."""
    from overtrick.comparison.table_job import TABLES
    from overtrick.config.job_file import Job, load
    from overtrick.runs import lifecycle
    from overtrick.training.registry import JOBS

    if (job is None) == (resume is None):
        raise UserError(f"{command} needs a job file, or --resume RUN")
    if job is not None:
        asked = load(job, overrides or [], {**JOBS, **TABLES})
        if not isinstance(asked, Job):
            raise UserError(f"{job} is a table: `overtrick evaluate {job}`")
        return asked, None
    assert resume is not None
    folder = lifecycle.find(resume)
    lifecycle.check_kind(folder, "run" if command == "train" else command)
    return lifecycle.read_job(folder), folder
