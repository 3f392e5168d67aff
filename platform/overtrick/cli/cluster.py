"""Commands that have a running cluster do the work: submit, jobs, logs, stop."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overtrick import startup
from overtrick.cli import INTERRUPTED, Json, app, people, result
from overtrick.core import UserError

if TYPE_CHECKING:
    from overtrick.distributed.job_client import Cluster

Address = Annotated[
    str, typer.Option(envvar="RAY_API_SERVER_ADDRESS", help="The dashboard: http://HEAD:8265.")
]
Submission = Annotated[str, typer.Argument(metavar="ID", help="As `overtrick jobs` lists it.")]


@app.command()
def submit(
    job: Annotated[Path | None, typer.Argument(help="A job file, or that of a table.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value by dotted path.")] = None,
    address: Address = "",
    runs: Annotated[
        str,
        typer.Option(envvar="OVERTRICK_RUNS", help="Its folder of runs, if not its own."),
    ] = "",
    sweep: Annotated[bool, typer.Option("--sweep", help="Sweep what its search names.")] = False,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run of the cluster instead.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show its log until it ends.")] = False,
    files_there: Annotated[
        bool, typer.Option("--files-there", help="The files that the job names are the cluster's.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Have a running cluster train a job; it goes on when this machine leaves."""
    from overtrick.distributed.job_package import Order
    from overtrick.runs import provenance

    if (job is None) == (resume is None):
        raise UserError("submit needs a job file, or --resume RUN")
    if runs and not Path(runs).is_absolute():
        raise UserError(
            f"--runs '{runs}': name the folder where the cluster keeps runs, as an absolute path "
            "that outlives the job, such as /shared/runs"
        )
    if job is not None:
        command, plain = _checked(job, overrides or [], sweep, files_there)
        name = job.stem
    else:
        command, plain, name = "resume", None, str(resume)
    sent = {provenance.SENT: json.dumps(provenance.code_tags())}
    there = _cluster(address)
    submission = there.send(Order(command, name, plain, runs, sent))
    people.print(f"{submission}: {command} {name} at {there.address}", soft_wrap=True)
    code = _follow(there, submission, as_json) if follow else 0
    result(as_json, id=submission, command=command, job=name, exit_code=code if follow else None)
    if not follow:
        more = f"overtrick logs {submission} --follow --address {there.address}"
        people.print(more, soft_wrap=True, highlight=False)
    sys.exit(code)  # main() would tell of a Ctrl-C that it was not


@app.command()
def jobs(address: Address = "", as_json: Json = False) -> None:
    """The jobs that a cluster was sent, the newest first."""
    listed = _cluster(address).jobs()
    rows = [
        {
            "id": each.id,
            "job": each.job,
            "status": each.status,
            "start": None if each.start is None else _clock(each.start),
            "seconds": None if each.seconds is None else round(each.seconds, 1),
            "exit_code": each.exit_code,
        }
        for each in listed
    ]
    for row in rows:
        line = f"{row['id']}  {row['job']}  {row['status']}  {row['start']}  {row['seconds']} s"
        people.print(line, soft_wrap=True, highlight=False)
    result(as_json, jobs=rows)


@app.command()
def logs(
    submission: Submission,
    address: Address = "",
    follow: Annotated[bool, typer.Option("--follow", help="Until the job ends.")] = False,
) -> None:
    """What a job of a cluster has written."""
    there = _cluster(address)
    if follow:
        sys.exit(_follow(there, submission, as_json=False))
    print(there.log(submission), end="", flush=True)


@app.command()
def stop(submission: Submission, address: Address = "", as_json: Json = False) -> None:
    """Stop a job of a cluster, as Ctrl-C would; its run can be gone on with."""
    job = _cluster(address).stop(submission)
    people.print(f"{job.id}: {job.status}. `overtrick submit --resume RUN` goes on", soft_wrap=True)
    result(as_json, id=job.id, status=job.status)


def _cluster(address: str) -> Cluster:
    from overtrick.distributed.job_client import Cluster

    if not address:
        raise UserError(
            "where is the cluster? --address http://HEAD:8265, or RAY_API_SERVER_ADDRESS"
        )
    startup.drop_generated_token()
    return Cluster(address)


def _follow(there: Cluster, submission: str, as_json: bool) -> int:
    """Show a job's log to its end; its exit code. Whoever stops looking does not stop the job."""
    out = sys.stderr if as_json else sys.stdout
    try:
        return there.follow(submission, lambda text: print(text, end="", file=out, flush=True))
    except KeyboardInterrupt:
        where = f"{submission} --address {there.address}"
        people.print(
            f"\n{submission} goes on. To see more: overtrick logs {where} --follow; to stop it: "
            f"overtrick stop {where}",
            soft_wrap=True,
        )
        return INTERRUPTED


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _checked(
    file: Path, overrides: list[str], sweep: bool, files_there: bool
) -> tuple[str, dict[str, Any]]:
    """The command that a job file asks for, and its job as plain data, which tracks where the
    cluster does. Raises UserError for what would only fail there."""
    from overtrick.comparison import schedule
    from overtrick.comparison import table_job as page
    from overtrick.config import job_file
    from overtrick.config.overrides import apply_overrides
    from overtrick.runs import lifecycle
    from overtrick.sweeps import sweep as sweeps
    from overtrick.training.registry import JOBS

    asked = apply_overrides(job_file.read(file), overrides)
    uri = (asked.get("track") or {}).get("uri", "sqlite:///")
    if re.fullmatch(r"sqlite:///(?!/).*", uri):  # a file of the folder where one stands
        uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    told = [*overrides, f"track.uri={uri}"] if uri else overrides
    work: job_file.BaseJob
    if asked.get("trainer") in page.TABLES:
        command, work = "evaluate", page.load(file, told)
        check: Callable[..., object] = schedule.check
    else:
        work = job_file.load(file, told, JOBS)
        command = "sweep" if sweep else "train"
        check = functools.partial(sweeps.check, source=str(file)) if sweep else lifecycle.check_job
    if not files_there:
        with tempfile.TemporaryDirectory() as folder:  # its own store may be out of reach here
            track = job_file.Track(uri=f"sqlite:///{folder}/mlflow.db")
            check(work.model_copy(update={"track": track}))
    plain = work.model_dump(mode="json")
    if not uri:
        del plain["track"]["uri"]  # the cluster's own, or that beside its runs
    return command, plain
