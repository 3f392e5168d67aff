"""Commands `overtrick cluster ...`: send jobs to a running Ray cluster and follow them."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from overtrick.cli import (
    INTERRUPTED,
    arguments,
    command_group,
    command_moved_to,
    print_result,
    say,
    show,
)
from overtrick.core import UserError, tracing
from overtrick.distributed.cluster_token import forget_local_token

if TYPE_CHECKING:
    from overtrick.config.job_file import Job
    from overtrick.distributed.job_client import Cluster

group: typer.Typer = command_group(
    "cluster", "Cluster", "Submit jobs to a running Ray cluster; list, follow and stop them."
)

Address = Annotated[
    str, Option(envvar="RAY_API_SERVER_ADDRESS", help="URL of the Ray dashboard: http://HEAD:8265.")
]
Submission = Annotated[str, Argument(metavar="ID", help="An ID of `overtrick cluster jobs`.")]


@command_moved_to(group)
def submit(
    job: arguments.JobFile = None,
    overrides: arguments.Overrides = None,
    address: Address = "",
    runs: Annotated[
        str, Option(envvar="OVERTRICK_RUNS", help="Folder or URL of runs on the cluster.")
    ] = "",
    sweep: Annotated[bool, Option("--sweep", help="Run every variant of its `search`.")] = False,
    resume: Annotated[str | None, Option(help="Continue this run of the cluster instead.")] = None,
    name: arguments.RunName = None,
    follow: Annotated[bool, Option("--follow", help="Print the job's log until it ends.")] = False,
    files_there: Annotated[
        bool, Option("--files-there", help="Send no files: the cluster has them.")
    ] = False,
    as_json: arguments.Json = False,
) -> None:
    """Send a job to a running Ray cluster; it continues if this machine disconnects."""
    from overtrick.distributed import placement
    from overtrick.distributed.job_package import ClusterTask
    from overtrick.runs import provenance
    from overtrick.storage.object_store import check_url, is_url, without_file_scheme

    forget_local_token()
    arguments.check_new_or_resumed("submit", job, resume)
    runs = without_file_scheme(runs)
    if is_url(runs):
        runs = check_url(runs, "--runs")
    elif runs and not Path(runs).is_absolute():
        raise UserError(
            f"--runs '{runs}': name the folder where the cluster keeps runs, as an absolute path "
            "that outlives the job, such as /shared/runs, or as a URL, such as s3://BUCKET/runs"
        )
    arguments.check_new_name(resume, name)
    command, config, what, run = "resume", None, str(resume), str(resume)
    jobs: list[Job] = []
    if job is not None:
        command, config, jobs = _validated(job, overrides or [], sweep, files_there)
        what = job.stem
        run = name or f"{what}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        arguments.check_new_name(None, run)
    elif sweep or files_there:
        option = "--sweep" if sweep else "--files-there"
        raise UserError(f"{option} has no effect with --resume: leave it out")
    environment = {provenance.SENT: json.dumps(provenance.code_tags())}
    cluster = _cluster(address)
    cluster.check_fits([placement.all_bundles(each.model_dump(mode="json")) for each in jobs])
    with tracing.span("submit", run=run) as carrier:
        environment |= tracing.as_environment(carrier)
        submission = cluster.submit(ClusterTask(command, what, run, config, runs, environment))
    say(f"{submission}: {command} {what} at {cluster.address}, run {run}")
    code = _follow(cluster, submission, as_json) if follow else None
    print_result(as_json, id=submission, command=command, job=what, run=run, exit_code=code)
    if not follow:
        say(f"overtrick cluster logs {submission} --follow --address {cluster.address}")
    sys.exit(code)  # returned from main(), 130 would print advice for a run of this machine


@command_moved_to(group)
def jobs(address: Address = "", as_json: arguments.Json = False) -> None:
    """List the jobs of a cluster, newest first."""
    rows = [dataclasses.asdict(each) for each in _cluster(address).jobs()]
    for row in rows:
        if row["start"] is not None:
            row["start"] = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["start"]))
            row["seconds"] = round(row["seconds"], 1)
        run = row["run"] or "run unknown"
        state = f"{row['status']}  {row['start']}  {row['seconds']} s"
        show(f"{row['id']}  {row['job']}  {run}  {state}")
    print_result(as_json, jobs=rows)


@command_moved_to(group)
def logs(
    submission: Submission,
    address: Address = "",
    follow: Annotated[bool, Option("--follow", help="Print new lines until the job ends.")] = False,
) -> None:
    """Print the log of a job on a cluster."""
    cluster = _cluster(address)
    if follow:
        sys.exit(_follow(cluster, submission, as_json=False))
    print(cluster.log(submission), end="", flush=True)


@command_moved_to(group)
def stop(submission: Submission, address: Address = "", as_json: arguments.Json = False) -> None:
    """Stop a job on a cluster, as Ctrl-C would. Its run can be continued."""
    job = _cluster(address).stop(submission)
    command = f"overtrick cluster submit --resume {job.run or 'RUN'}"
    say(f"{job.id}: {job.status}. `{command}` continues its run")
    print_result(as_json, id=job.id, status=job.status, run=job.run)


def _cluster(address: str) -> Cluster:
    """Return a client of the Ray cluster whose dashboard is at `address`.

    Raises UserError for an empty address.
    """
    forget_local_token()
    from overtrick.distributed.job_client import Cluster

    if not address:
        raise UserError("name the cluster by --address http://HEAD:8265 or RAY_API_SERVER_ADDRESS")
    return Cluster(address)


def _follow(cluster: Cluster, submission: str, as_json: bool) -> int:
    """Print the log of a submitted job until the job ends, and return the job's exit code.

    `as_json`: print to standard error, because standard output is for JSON. Ctrl-C ends the
    printing, not the job.
    """
    out = sys.stderr if as_json else sys.stdout
    try:
        return cluster.follow(submission, lambda text: print(text, end="", file=out, flush=True))
    except KeyboardInterrupt:
        where = f"{submission} --address {cluster.address}"
        say(
            f"\n{submission} continues. To see more: overtrick cluster logs {where} --follow; to "
            f"stop it: overtrick cluster stop {where}"
        )
        return INTERRUPTED


RELATIVE = "sqlite:///"  # begins the address of a file relative to a folder of this machine


def _is_relative(uri: Any) -> bool:
    """Return whether an MLflow address is a SQLite file with a path that is not absolute."""
    return isinstance(uri, str) and re.fullmatch(rf"{RELATIVE}(?!/).*", uri) is not None


def _validated(
    file: Path, overrides: list[str], sweep: bool, files_there: bool
) -> tuple[str, dict[str, Any], list[Job]]:
    """Validate a job file for a cluster; return the `overtrick` command that runs it, and its job.

    The command is train, sweep or evaluate. The job is returned as plain data. The last result are
    the jobs to check against the cluster's nodes: the job itself, or those that a comparison
    trains. If the job's tracking store is a SQLite file with a relative path, the cluster cannot
    reach the store. Its address is then replaced by MLFLOW_TRACKING_URI or, if that is not set,
    left out.

    - `sweep`: return the command sweep instead of train.
    - `files_there`: the job's files are on the cluster, so do not check that the job can run.

    Raises UserError for a job that would fail on the cluster.
    """
    from overtrick.comparison import table_kinds
    from overtrick.config import job_file
    from overtrick.config.overrides import apply_overrides
    from overtrick.runs import lifecycle
    from overtrick.sweeps import sweep as sweeps
    from overtrick.training.registry import JOBS

    asked = apply_overrides(job_file.read(file), overrides)
    track = asked.get("track")
    uri = track.get("uri", RELATIVE) if isinstance(track, dict) else RELATIVE
    if _is_relative(uri):
        uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        uri = "" if _is_relative(uri) else uri
    overrides = [*overrides, f"track.uri={uri}"] if uri else overrides
    work: job_file.BaseJob
    trainer = asked.get("trainer")
    if isinstance(trainer, str) and trainer in table_kinds.TABLE_JOBS:
        if sweep:
            raise UserError(f"{file} is a comparison table, which has no sweep: leave out --sweep")
        command, work = "evaluate", table_kinds.load(file, overrides)
        kind = table_kinds.KINDS[work.trainer]
        jobs = kind.training_jobs(work)
        check: Callable[..., object] = kind.check
    else:
        work = job_file.load(file, overrides, JOBS)
        jobs = [work]
        command = "sweep" if sweep else "train"
        check = functools.partial(sweeps.check, source=str(file)) if sweep else lifecycle.check_job
    if not files_there:
        with tempfile.TemporaryDirectory() as folder:  # its store may be unreachable from here
            track = job_file.Track(uri=f"sqlite:///{folder}/mlflow.db")
            check(work.model_copy(update={"track": track}))
    plain = work.model_dump(mode="json")
    if not uri:
        del plain["track"]["uri"]  # the cluster uses its own store, or one beside its runs
    return command, plain, jobs
