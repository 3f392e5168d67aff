"""Jobs on a running cluster: the code and one job go there, and this machine may leave.

Ray Jobs keeps what is sent in the cluster's own store and runs the driver there, so nothing of a
job depends on who submitted it. Passwords are never sent: the cluster's own environment has them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from overtrick.core import UserError
from overtrick.distributed.job_package import Order, packed

PACKAGE = Path(__file__).parents[1]
OURS = "overtrick.job"  # in a submission's metadata: what it runs
GRACE = 30  # seconds that a stopped job has to tell MLflow and to leave
PACE = 1.0  # seconds between looks at a job
SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|CREDENTIAL|_KEY$")
STOPPED = 130  # exit code of a job that was stopped, as after Ctrl-C
AWAY = 600.0  # seconds that a cluster may not answer while its job is followed
QUIET = 60.0  # seconds of silence after which the network may have gone without a word
T = TypeVar("T")


class _Client(JobSubmissionClient):
    """Ray's, which waits no longer than this for an answer to a question."""

    def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
        if method == "GET":
            more.setdefault("timeout", QUIET)
        return super()._do_request(method, endpoint, **more)


class Away(UserError):
    """Nobody answers for the cluster now; later somebody may."""


@dataclass(frozen=True)
class Listed:
    """One submission."""

    id: str
    job: str
    status: str
    start: float | None  # seconds since 1970
    seconds: float | None
    exit_code: int | None


class Cluster:
    """A running cluster, by the address of its dashboard. Raises UserError if it cannot be used."""

    def __init__(self, address: str) -> None:
        if not address.startswith(("http://", "https://")):
            raise UserError(
                f"--address {address}: must be that of the cluster's dashboard, such as "
                "http://HEAD:8265"
            )
        self.address = address.rstrip("/")
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
            os.environ.pop(name, None)  # Ray would take these before the address
        logging.disable(logging.INFO)  # Ray tells of every step on its way
        with self._asked():
            self._client = _Client(self.address)
            there = self._client._server_ray_version  # get_version() is that of the Jobs API
        here = version("ray")
        if there != here:
            raise UserError(
                f"the cluster at {self.address} runs Ray {there} and this machine {here}: install "
                "the same version on both"
            )

    def send(self, order: Order) -> str:
        """The id of a new submission. Raises UserError if its files are too large."""
        with tempfile.TemporaryDirectory() as folder:
            entry = packed(order, Path(folder))
            runtime = {
                "working_dir": folder,
                "py_modules": [str(PACKAGE)],
                "excludes": ["__pycache__", "*.pyc"],
                "env_vars": {
                    **order.environment,
                    **({"OVERTRICK_RUNS": order.runs} if order.runs else {}),
                    "RAY_JOB_STOP_SIGNAL": "SIGINT",  # it ends as after Ctrl-C
                    "RAY_JOB_STOP_WAIT_TIME_S": str(GRACE),
                },
            }
            metadata = {OURS: f"{order.command} {order.name}"}
            deadline = time.monotonic() + GRACE
            with self._asked():
                while True:
                    try:
                        return self._client.submit_job(
                            entrypoint=entry, runtime_env=runtime, metadata=metadata
                        )
                    except RuntimeError as error:  # a head that has only just started
                        if "No available agent" not in str(error) or time.monotonic() > deadline:
                            raise
                    time.sleep(PACE)

    def jobs(self) -> list[Listed]:
        """Every submission that the cluster knows, the newest first."""
        with self._asked():
            found = [_listed(each) for each in self._client.list_jobs() if each.submission_id]
        return sorted(found, key=lambda each: -(each.start or time.time()))

    def job(self, submission: str) -> Listed:
        """One submission. Raises UserError if there is none of this id."""
        with self._asked(submission):
            return _listed(self._client.get_job_info(submission))

    def stop(self, submission: str) -> Listed:
        """Have a job stop as after Ctrl-C, and wait until it has."""
        with self._asked(submission):
            self._client.stop_job(submission)
        deadline = time.monotonic() + 2 * GRACE
        while not _over(job := self.job(submission)) and time.monotonic() < deadline:
            time.sleep(PACE)
        return job

    def log(self, submission: str) -> str:
        """What a job has written so far."""
        with self._asked(submission):
            return hidden(self._client.get_job_logs(submission))

    def follow(self, submission: str, write: Callable[[str], None]) -> int:
        """Write a job's log from its beginning as it grows; the job's exit code.

        A connection that breaks is made again, and the log goes on where it was. Raises UserError
        if nobody answers for AWAY seconds.
        """
        shown = 0
        while True:
            shown = asyncio.run(self._tail(submission, shown, write))
            job = self._awaited(lambda: self.job(submission))
            if _over(job):
                break
            time.sleep(PACE)
        write(self._awaited(lambda: self.log(submission))[shown:])
        return _exit_code(job)

    def _awaited(self, ask: Callable[[], T]) -> T:
        """What a cluster answers, who is asked again while it is away."""
        deadline, told = time.monotonic() + AWAY, False
        while True:
            try:
                return ask()
            except Away as error:
                if time.monotonic() > deadline:
                    raise
                if not told:
                    logging.getLogger(__name__).warning(f"{error}; asking again")
                    told = True
            time.sleep(PACE)

    async def _tail(self, submission: str, shown: int, write: Callable[[str], None]) -> int:
        """Write what comes beyond the first `shown` characters, until the connection ends, or is
        found to have ended without a word."""
        seen = 0
        lines: AsyncIterator[str] = self._client.tail_job_logs(submission)
        try:
            while True:
                following = asyncio.ensure_future(anext(lines, None))
                # a ping would not tell: the head answers none
                while not (await asyncio.wait([following], timeout=QUIET))[0]:
                    if self._unheard(submission, shown):
                        return shown
                if (part := following.result()) is None:
                    return shown
                text = hidden(part)
                seen += len(text)
                if seen > shown:
                    write(text[len(text) - (seen - shown) :])
                    shown = seen
        except (RuntimeError, OSError, aiohttp.ClientError):  # a connection that broke
            return shown

    def _unheard(self, submission: str, shown: int) -> bool:
        """Does the cluster not answer, or has there been more to hear than was?"""
        try:
            return _over(self.job(submission)) or len(self.log(submission)) > shown
        except UserError:
            return True

    @contextmanager
    def _asked(self, submission: str = "") -> Iterator[None]:
        """Say in one line why the cluster does not do as it is asked. Raises UserError."""
        try:
            yield
        except AuthenticationError:
            given = os.environ.get("RAY_AUTH_TOKEN")
            what = "does not take this token" if given else "asks for a token"
            raise UserError(
                f"the cluster at {self.address} {what}: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
                "as they were when its head was started"
            ) from None
        except (OSError, ValueError) as error:
            reason = type(error).__name__
            raise Away(
                f"no Ray cluster answers at {self.address} ({reason}): start one, or give the "
                "address of its dashboard, such as http://HEAD:8265"
            ) from None
        except RuntimeError as error:
            if submission and "does not exist" in str(error):
                raise UserError(
                    f"no job '{submission}' at {self.address}: `overtrick cluster jobs` lists them"
                ) from None
            kind = Away if re.search(r"status code 5\d\d", str(error)) else UserError
            raise kind(f"the cluster at {self.address}: {hidden(str(error))}") from None


def hidden(text: str) -> str:
    """A text without the passwords and tokens of this machine's environment."""
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= 6:
            text = text.replace(value, "*" * 3)
    return text


def _over(job: Listed) -> bool:
    return JobStatus(job.status).is_terminal()


def _exit_code(job: Listed) -> int:
    """The exit code of a job that is over."""
    if job.status == JobStatus.SUCCEEDED:
        return 0
    if job.status == JobStatus.STOPPED:
        return STOPPED
    return job.exit_code if job.exit_code and job.exit_code > 0 else 1


def _listed(details: Any) -> Listed:
    start = None if details.start_time is None else details.start_time / 1000
    end = time.time() if details.end_time is None else details.end_time / 1000
    name = (details.metadata or {}).get(OURS) or hidden(details.entrypoint)
    seconds = None if start is None else end - start
    status = str(details.status.value)
    return Listed(details.submission_id, name, status, start, seconds, details.driver_exit_code)
