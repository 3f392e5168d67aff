"""Client of Ray Jobs: submit a job together with this code to a running cluster, and follow it.

Ray Jobs stores code and job on the cluster and runs the driver there. So the submitting machine may
disconnect. Passwords are not sent; the cluster has them in its own environment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from overtrick import startup
from overtrick.core import RunError, UserError
from overtrick.distributed import placement
from overtrick.distributed.job_package import ClusterTask, pack

PACKAGE = Path(__file__).parents[1]
METADATA_KEY = "overtrick.job"  # of a submission: its command and the name of its job
RUN_KEY = "overtrick.run"  # of a submission: the name of its run
GRACE = 30  # seconds in which a stopped job reports to MLflow and ends
POLL_INTERVAL = 1.0  # seconds between requests about a job
NODE_GROUP = "ray.io/node-group"  # Ray's label of nodes that `ray up` or KubeRay started
SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|CREDENTIAL|_KEY$")
STOPPED = 130  # exit code of a job that was stopped, as after Ctrl-C
MAX_OUTAGE = 600.0  # seconds without an answer after which following a job fails
SILENCE = 60.0  # seconds without log lines after which the connection is checked
T = TypeVar("T")


class _Client(JobSubmissionClient):
    """Ray's client with a timeout of SILENCE seconds for GET requests."""

    def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
        if method == "GET":
            more.setdefault("timeout", SILENCE)
        return super()._do_request(method, endpoint, **more)


class UnreachableError(UserError):
    """Error: the cluster does not answer now, but may answer later."""


@dataclass(frozen=True)
class SubmittedJob:
    """A job that was submitted to a Ray cluster, as Ray Jobs reports it."""

    id: str
    job: str
    run: str | None  # None if it was submitted by an earlier version
    status: str
    start: float | None  # seconds since 1970
    seconds: float | None
    exit_code: int | None


class Cluster:
    """Client of a running Ray cluster, given by the address of its dashboard.

    Raises UserError if the cluster does not answer, refuses the token, or runs another version of
    Ray.
    """

    def __init__(self, address: str) -> None:
        """Connect to the cluster. `address`: its dashboard, such as http://HEAD:8265.

        Deletes the environment variables RAY_ADDRESS and RAY_API_SERVER_ADDRESS, and disables log
        messages of level INFO in this process. Raises UserError for an address that does not begin
        with http:// or https://, and for the reasons in the docstring of the class.
        """
        if not address.startswith(("http://", "https://")):
            raise UserError(
                f"--address {address}: must be that of the cluster's dashboard, such as "
                "http://HEAD:8265"
            )
        self.address = address.rstrip("/")
        startup.drop_generated_token()
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
            os.environ.pop(name, None)  # they would override the address
        logging.disable(logging.INFO)  # Ray logs every step
        with self._request():
            self._client = _Client(self.address)
            # get_version() returns the version of the Jobs API
            there = self._client._server_ray_version
        here = version("ray")
        if there != here:
            raise UserError(
                f"the cluster at {self.address} runs Ray {there} and this machine {here}: install "
                "the same version on both"
            )

    def submit(self, task: ClusterTask) -> str:
        """Submit a job and return its submission id. Raises UserError if the files are too big."""
        with tempfile.TemporaryDirectory() as folder:
            entry = pack(task, Path(folder))
            runtime = {
                "working_dir": folder,
                "py_modules": [str(PACKAGE)],
                "excludes": ["__pycache__", "*.pyc"],
                "env_vars": {
                    **task.environment,
                    **({"OVERTRICK_RUNS": task.runs} if task.runs else {}),
                    "RAY_JOB_STOP_SIGNAL": "SIGINT",  # the job ends as after Ctrl-C
                    "RAY_JOB_STOP_WAIT_TIME_S": str(GRACE),
                },
            }
            metadata = {METADATA_KEY: f"{task.command} {task.name}", RUN_KEY: task.run}
            deadline = time.monotonic() + GRACE
            with self._request():
                while True:
                    try:
                        return self._client.submit_job(
                            entrypoint=entry, runtime_env=runtime, metadata=metadata
                        )
                    except RuntimeError as error:  # the head has only just started
                        if "No available agent" not in str(error) or time.monotonic() > deadline:
                            raise
                    time.sleep(POLL_INTERVAL)

    def check_fits(self, bundles_of_jobs: Sequence[placement.Bundles]) -> None:
        """Raise UserError if the cluster's nodes can never hold all bundles of a job at once.

        An autoscaler may add nodes that this machine does not know. A cluster started by `ray up`
        or KubeRay is therefore checked only if OVERTRICK_MACHINES here names all nodes that it may
        have; otherwise the job itself is refused there.
        """
        most = os.environ.get(placement.MACHINES, "")
        deadline = time.monotonic() + GRACE
        while not (nodes := self._nodes()) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL)  # the head has only just started
        if most or not any(NODE_GROUP in node["labels"] for node in nodes):
            machines = [node["resources_total"] for node in nodes]
            for bundles in bundles_of_jobs:
                placement.check_fits(bundles, placement.with_autoscaler_nodes(machines, most))

    def _nodes(self) -> list[dict[str, Any]]:
        """Return the living nodes of the cluster, as Ray's state API describes them."""
        with self._request():
            answer = self._client._do_request("GET", "/api/v0/nodes?limit=10000")
            if answer.status_code != 200:
                self._client._raise_error(answer)
            found = answer.json()["data"]["result"]["result"]
        return [node for node in found if node["state"] == "ALIVE"]

    def jobs(self) -> list[SubmittedJob]:
        """Return all jobs that were submitted to the cluster, the newest first."""
        with self._request():
            found = [_job_of(each) for each in self._client.list_jobs() if each.submission_id]
        return sorted(found, key=lambda each: -(each.start or time.time()))

    def job(self, submission: str) -> SubmittedJob:
        """Return the submitted job with this submission id. Raises UserError for an unknown id."""
        with self._request(submission):
            return _job_of(self._client.get_job_info(submission))

    def stop(self, submission: str) -> SubmittedJob:
        """Stop a job, as Ctrl-C does, wait until it has ended, and return it.

        Raises RunError if it has not ended after 2 * GRACE seconds.
        """
        with self._request(submission):
            self._client.stop_job(submission)
        deadline = time.monotonic() + 2 * GRACE
        while not _has_ended(job := self.job(submission)) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL)
        if not _has_ended(job):
            raise RunError(
                f"{submission} was told to stop {2 * GRACE} seconds ago and is still {job.status}: "
                f"`overtrick cluster logs {submission} --follow` shows when it ends"
            )
        return job

    def log(self, submission: str) -> str:
        """Return the log of a job so far, without passwords."""
        with self._request(submission):
            return redact(self._client.get_job_logs(submission))

    def follow(self, submission: str, write: Callable[[str], None]) -> int:
        """Write a job's log from its beginning until the job ends; return the job's exit code.

        `write`: called with each new piece of text. After a broken connection the log continues
        where it stopped. Raises UserError if the cluster does not answer for MAX_OUTAGE seconds.
        """
        shown = 0
        while True:
            shown = asyncio.run(self._tail(submission, shown, write))
            job = self._retry(lambda: self.job(submission))
            if _has_ended(job):
                break
            time.sleep(POLL_INTERVAL)
        write(self._retry(lambda: self.log(submission))[shown:])
        return _exit_code(job)

    def _retry(self, ask: Callable[[], T]) -> T:
        """Call a request function until the cluster answers, and return its result.

        `ask`: sends one request; raises UnreachableError if the cluster does not answer. That error
        is raised again after MAX_OUTAGE seconds.
        """
        deadline, warned = time.monotonic() + MAX_OUTAGE, False
        while True:
            try:
                return ask()
            except UnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                if not warned:
                    logging.getLogger(__name__).warning(f"{error}; asking again")
                    warned = True
            time.sleep(POLL_INTERVAL)

    async def _tail(self, submission: str, shown: int, write: Callable[[str], None]) -> int:
        """Stream a job's log, without its first `shown` characters, until the connection closes.

        `write`: called with each new piece of text. Returns the number of characters of the log
        that have been written so far, including the first `shown`. After SILENCE seconds without
        new text, `_has_more` checks whether the connection was lost.
        """
        received = 0
        lines: AsyncIterator[str] = self._client.tail_job_logs(submission)
        try:
            while True:
                following = asyncio.ensure_future(anext(lines, None))
                # WebSocket pings are of no use: the head does not answer them
                while not (await asyncio.wait([following], timeout=SILENCE))[0]:
                    if self._has_more(submission, shown):
                        return shown
                if (part := following.result()) is None:
                    return shown
                text = redact(part)
                received += len(text)
                if received > shown:
                    write(text[len(text) - (received - shown) :])
                    shown = received
        except (RuntimeError, OSError, aiohttp.ClientError):  # a broken connection
            return shown

    def _has_more(self, submission: str, shown: int) -> bool:
        """Return True if a job has ended or its log is longer than `shown` characters.

        Also returns True if the cluster does not answer, so that the caller connects again.
        """
        try:
            return _has_ended(self.job(submission)) or len(self.log(submission)) > shown
        except UserError:
            return True

    @contextmanager
    def _request(self, submission: str = "") -> Iterator[None]:
        """Context manager that turns errors of a request to the cluster into a one-line UserError.

        `submission`: the submission id, if the request is about one job.
        """
        try:
            yield
        except AuthenticationError:
            given = os.environ.get("RAY_AUTH_TOKEN")
            what = "rejects this token" if given else "asks for a token"
            raise UserError(
                f"the cluster at {self.address} {what}: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
                "as they were when its head was started"
            ) from None
        except (OSError, ValueError) as error:
            reason = type(error).__name__
            raise UnreachableError(
                f"no Ray cluster answers at {self.address} ({reason}): start one, or give the "
                "address of its dashboard, such as http://HEAD:8265"
            ) from None
        except RuntimeError as error:
            if submission and "does not exist" in str(error):
                raise UserError(
                    f"no job '{submission}' at {self.address}: `overtrick cluster jobs` lists them"
                ) from None
            kind = UnreachableError if re.search(r"status code 5\d\d", str(error)) else UserError
            raise kind(f"the cluster at {self.address}: {redact(str(error))}") from None


def redact(text: str) -> str:
    """Return a text in which the passwords and tokens of this machine's environment are asterisks.

    Secrets are the environment variables whose names match SECRET.
    """
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= 6:
            text = text.replace(value, "*" * 3)
    return text


def _has_ended(job: SubmittedJob) -> bool:
    return JobStatus(job.status).is_terminal()


def _exit_code(job: SubmittedJob) -> int:
    """Return the exit code of a job that has ended: 0 after success, STOPPED if it was stopped."""
    if job.status == JobStatus.SUCCEEDED:
        return 0
    if job.status == JobStatus.STOPPED:
        return STOPPED
    return job.exit_code if job.exit_code and job.exit_code > 0 else 1


def _job_of(details: Any) -> SubmittedJob:
    """Convert the job details of Ray's client to a SubmittedJob."""
    start = None if details.start_time is None else details.start_time / 1000
    end = time.time() if details.end_time is None else details.end_time / 1000
    metadata = details.metadata or {}
    name = metadata.get(METADATA_KEY) or redact(details.entrypoint)
    seconds = None if start is None else end - start
    status, code = str(details.status.value), details.driver_exit_code
    run = metadata.get(RUN_KEY)
    return SubmittedJob(details.submission_id, name, run, status, start, seconds, code)
