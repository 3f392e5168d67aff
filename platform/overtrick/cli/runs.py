"""Commands that train, evaluate and register models.

- train: train a player as configured in a job file.
- sweep: train all variants of a hyperparameter search.
- resume: continue an interrupted run, sweep or comparison.
- evaluate: evaluate a model against held-out opponents, or compare methods.
- safety: measure a model's payoff and exploitability under several exploitability bounds.
- register: add a run's model to the MLflow model registry.
- keys: list the configuration keys of a trainer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from overtrick.cli import TRAIN, app, arguments, console, print_result, say, show
from overtrick.core import UserError, suggestion
from overtrick.reports import tables

if TYPE_CHECKING:
    from overtrick.config.job_file import Job
    from overtrick.runs.child_runs import FinishedGroup
    from overtrick.storage.run_folder import RunFolder


@app.command(rich_help_panel=TRAIN)
def train(
    job: arguments.JobFile = None,
    overrides: arguments.Overrides = None,
    resume: Annotated[str | None, Option(help="Continue this run instead.")] = None,
    name: arguments.RunName = None,
    as_json: arguments.Json = False,
) -> None:
    """Train a player as configured in a job file, and track the run in MLflow.

    `overtrick keys TRAINER` lists the keys of a job file.
    """
    from overtrick.reports.progress import IterationBar
    from overtrick.runs import lifecycle
    from overtrick.runs.next_commands import next_commands

    config, folder = _job_or_run("train", job, overrides, resume, name)
    lifecycle.check_job(config)
    folder = folder or lifecycle.open_folder(config, job.stem, run_name=name)  # type: ignore[union-attr]
    with IterationBar(console, folder.name, config.stop.iterations) as bar:
        done = lifecycle.train(folder, bar.show)
    show(tables.evaluation(done.rows, done.unit))
    model = f"{folder}/{folder.model.name}"
    show(f"run {folder.name}: trained in {done.seconds:.0f} s; model in {model}")
    if done.undelivered:
        say(
            f"MLflow has not received {done.undelivered}; they are stored in {folder} and "
            f"`overtrick train --resume {folder.name}` sends them"
        )
    if done.rejected:
        say(f"MLflow refused {done.rejected} events: see {folder.rejected_events}")
    program = "overtrick" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]
    if folder.page.exists():
        say(f"page: {folder.page} (open it in a browser)")
    try:
        commands = next_commands(folder, config)
    except UserError as error:  # the run itself is finished
        say(f"cannot suggest next commands: {error}")
    else:
        say("next:")
        for command, purpose in commands:
            say(f"  {program} {command}  # {purpose}")
    print_result(as_json, run=folder.name, model=model, seconds=done.seconds, metrics=done.metrics)


@app.command(rich_help_panel=TRAIN)
def sweep(
    job: Annotated[Path | None, Argument(help="A job file with a `search` section.")] = None,
    overrides: arguments.Overrides = None,
    resume: Annotated[str | None, Option(help="Continue this sweep instead.")] = None,
    address: Annotated[str | None, Option(help="Submit to a cluster: http://HEAD:8265.")] = None,
    name: arguments.RunName = None,
    as_json: arguments.Json = False,
) -> None:
    """Train every variant of a job's `search` section in parallel; rank them by score."""
    from overtrick.reports.progress import IterationBar
    from overtrick.runs import lifecycle
    from overtrick.sweeps import sweep as sweeps

    if address is not None:
        from overtrick.cli.cluster import submit

        runs = os.environ.get("OVERTRICK_RUNS", "")
        submit(job, overrides, address, runs, resume is None, resume, name, True, False, as_json)
    config, folder = _job_or_run("sweep", job, overrides, resume, name)
    iterations = sweeps.check(config, str(job or resume), stored=resume is not None)
    folder = folder or lifecycle.open_folder(config, job.stem, True, name)  # type: ignore[union-attr]
    with IterationBar(console, folder.name, iterations) as bar:
        done = sweeps.run(folder, lambda iteration: bar.show(iteration, {}))
    show(tables.trials(done.rows))
    scored = [row["trial"] for row in done.rows if row["score"] is not None]
    best = str(folder.child(scored[0])) if scored else None
    median = "none" if done.median is None else f"{done.median:.4g}"
    show(f"{len(done.rows)} trials in {done.seconds:.0f} s, median score {median}; best: {best}")
    _end_group(done, as_json, best=best, median=done.median, rows=done.rows)


@app.command(rich_help_panel=TRAIN)
def resume(
    what: Annotated[str, Argument(metavar="RUN", help="A run, sweep, or comparison table.")],
    as_json: arguments.Json = False,
) -> None:
    """Continue an interrupted run, sweep or comparison table from its last checkpoints."""
    from overtrick.runs import folder_kind
    from overtrick.storage import locate

    kind, folder = folder_kind.kind_of(locate.existing_run(what))
    if kind == "run":
        train(None, None, str(folder), None, as_json)
    elif kind == "sweep":
        sweep(None, None, str(folder), None, None, as_json)
    else:
        compare_methods(folder, None, [], None, as_json)


@app.command(rich_help_panel=TRAIN)
def evaluate(
    what: Annotated[
        str | None, Argument(metavar="WHAT", help="A run, a model folder, or a comparison's job.")
    ] = None,
    overrides: arguments.Overrides = None,
    workers: Annotated[int | None, Option(min=0, help="Ray workers; 0: this process.")] = None,
    resume: Annotated[str | None, Option(help="Continue this comparison table instead.")] = None,
    name: arguments.RunName = None,
    as_json: arguments.Json = False,
) -> None:
    """Evaluate a stored model against held-out opponents, or compare methods.

    With the job file of a comparison table, such as jobs/table2.yaml, train and evaluate every
    method.
    """
    from overtrick.runs import lifecycle
    from overtrick.storage import locate

    needed = "a run, a model, a comparison's job file, or --resume TABLE"
    arguments.check_new_or_resumed("evaluate", what, resume, needed)
    arguments.check_new_name(resume, name)
    if resume is not None:
        if workers is not None:
            raise UserError("--workers has no effect with --resume: leave it out")
        compare_methods(locate.existing_run(resume), None, [], None, as_json)
    elif what is not None and _is_job(what):
        asked = [] if workers is None else [f"workers={workers}"]
        compare_methods(None, Path(what), [*(overrides or []), *asked], name, as_json)
    elif what is not None:
        if overrides:
            override = f"override '{overrides[0]}'"
            raise UserError(f"{override}: a stored model is evaluated by its own job")
        if name is not None:
            raise UserError(f"--name {name}: the evaluation of a stored model makes no run")
        rows, game, unit = lifecycle.evaluate_stored(what, workers or 0)
        show(tables.evaluation(rows, unit))
        print_result(as_json, game=game, unit=unit, rows=rows)


def _is_job(what: str) -> bool:
    """Return whether a word names a job file or, if no run has this name, a job of the package."""
    from overtrick.config.packaged_jobs import packaged_jobs
    from overtrick.storage import locate

    file = what.endswith((".yaml", ".yml"))
    here = os.path.exists(what) or locate.find_run(what) is not None
    return file or (what in packaged_jobs() and not here)


def compare_methods(
    folder: RunFolder | None,
    job: Path | None,
    overrides: list[str],
    name: str | None,
    as_json: bool,
    only: tuple[str, ...] = (),
) -> None:
    """Train and evaluate the methods of a comparison table, either a new or an interrupted one.

    `folder`: the run folder of the table to continue, or None. `job`: the job file of a new table,
    or None. `overrides`: `key=value` overrides of a new table's job. `name`: of a new table's run,
    or None. `only`: the kinds of table that the job may be; empty: any.
    """
    from overtrick.comparison import table_kinds
    from overtrick.reports.progress import IterationBar
    from overtrick.runs import lifecycle

    table = table_kinds.load(job, overrides) if job is not None else table_kinds.read_job(folder)  # type: ignore[arg-type]
    if only and table.trainer not in only:
        raise UserError(f"{job} is no {only[0]}: its trainer is {table.trainer}")
    kind = table_kinds.KINDS[table.trainer]
    total = kind.check(table)
    folder = folder or lifecycle.open_folder(table, job.stem, True, name)  # type: ignore[union-attr]
    with IterationBar(console, folder.name, total) as bar:
        done = kind.run(folder, lambda iteration: bar.show(iteration, {}))
    for rows, title in done.titled_tables():
        show(tables.plain(rows, title))
    for line in (*done.legend(), f"{folder.markdown_table} in {done.seconds:.0f} s"):
        say(line)
    _end_group(done, as_json, **done.json_results())


def _end_group(done: FinishedGroup, as_json: bool, **values: Any) -> None:
    """Print the result of a sweep or comparison table; exit with 1 if a child run failed.

    `values`: further values for JSON output.
    """
    if done.undelivered:
        say(f"MLflow has not received {done.undelivered} events; they are stored in {done.folder}")
    for line in done.failed:
        console.print(line, style="red", markup=False, soft_wrap=True)
    result = {"seconds": done.seconds, "failed": done.failed}
    print_result(as_json, run=done.folder.name, **values, **result)
    if done.failed:
        raise typer.Exit(1)


@app.command(rich_help_panel=TRAIN)
def safety(
    what: arguments.Model,
    overrides: arguments.Overrides = None,
    against: Annotated[str | None, Option(help="Held-out opponents, e.g. call,bluff.")] = None,
    workers: arguments.Workers = 0,
    out: Annotated[Path | None, Option(help="Folder for the figure.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Measure an adapting model's payoff and exploitability at several exploitability bounds.

    The table also shows the maximum payoff of any strategy that is no more exploitable, computed by
    restricted Nash responses.
    """
    from overtrick.studies.safety import evaluate_safety

    names = [] if against is None else against.split(",")
    answer, folder = evaluate_safety(what, names, overrides or [], workers, out)
    show(tables.safety(answer["rows"], answer["unit"]))
    if folder is not None:
        say(f"figure and numbers: {folder}/safety.png, safety.json")
    print_result(as_json, **answer)


@app.command(rich_help_panel=TRAIN)
def register(
    run: Annotated[str, Argument(help="A finished run.")],
    name: Annotated[str, Argument(help="Name of the registered model.")],
    alias: Annotated[str | None, Option(help="Alias of this version, e.g. champion.")] = None,
    best: Annotated[
        bool, Option("--best", help="Register the model that scored best in training.")
    ] = False,
    as_json: arguments.Json = False,
) -> None:
    """Register a run's model in the MLflow model registry.

    Other commands then accept models:/NAME/VERSION or models:/NAME@ALIAS in place of a run.
    """
    from overtrick.runs import lifecycle

    version = lifecycle.register(run, name, alias, best)
    show(f"models:/{name}/{version}{f', models:/{name}@{alias}' if alias else ''}")
    print_result(as_json, run=run, name=name, version=version, alias=alias)


@app.command(rich_help_panel=TRAIN)
def lineage(
    what: Annotated[
        str, Argument(metavar="MODEL", help="A run, or a registered model models:/NAME/VERSION.")
    ],
    as_json: arguments.Json = False,
) -> None:
    """Show which job, code, data sets and models made a model, as recorded in MLflow."""
    from overtrick.runs.lineage import lineage

    found = lineage(what)
    lists = ("datasets", "models", "job")
    show(tables.plain([{"": k, "value": v} for k, v in found.items() if k not in lists]))
    if found["datasets"]:
        show(tables.plain(found["datasets"], "data sets"))
    if found["models"]:
        show(
            tables.plain([{"model": m["model"], **m["sha256"]} for m in found["models"]], "models")
        )
    show(tables.plain([{"key": k, "value": v} for k, v in found["job"].items()], "job"))
    print_result(as_json, **found)


@app.command(rich_help_panel=TRAIN)
def keys(
    trainer: Annotated[str, Argument(help="A trainer or kind of table, such as meta.")],
    as_json: arguments.Json = False,
) -> None:
    """List the keys of a trainer's job file: allowed values, defaults and meanings."""
    from overtrick.comparison.table_kinds import TABLE_JOBS
    from overtrick.config.job_keys import list_keys
    from overtrick.training.registry import JOBS

    known = {**JOBS, **TABLE_JOBS}
    if trainer not in known:
        raise UserError(f"unknown trainer '{trainer}': {suggestion(trainer, known)}")
    rows = [each._asdict() for each in list_keys(known[trainer])]
    show(tables.plain(rows))
    print_result(as_json, trainer=trainer, keys=rows)


def _job_or_run(
    command: str,
    job: Path | None,
    overrides: list[str] | None,
    resume: str | None,
    name: str | None,
) -> tuple[Job, RunFolder | None]:
    """Return the job to run, and the folder of the run to resume or None for a new run.

    `command`: the name of the calling command, for errors. `job`: the job file of a new run.
    `resume`: the name of the run to resume. `name`: the name of a new run. Raises UserError unless
    exactly one of `job` and `resume` is given.
    """
    from overtrick.comparison.table_kinds import TABLE_JOBS
    from overtrick.config.job_file import Job, load
    from overtrick.runs import folder_kind, lifecycle
    from overtrick.storage import locate
    from overtrick.training.registry import JOBS

    arguments.check_new_or_resumed(command, job, resume)
    arguments.check_new_name(resume, name)
    if job is not None:
        asked = load(job, overrides or [], {**JOBS, **TABLE_JOBS})
        if not isinstance(asked, Job):
            raise UserError(f"{job} is a comparison table: `overtrick evaluate {job}`")
        return asked, None
    assert resume is not None
    folder = locate.existing_run(resume)
    folder_kind.check_kind(folder, "run" if command == "train" else command)
    return lifecycle.read_job(folder), folder
