"""Ray on this machine: a second try to start it, and the end of work whose Ray dies. Stand-ins take
the place of Ray's processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from overtrick.core import RayDiedError, RunError
from overtrick.distributed import local_ray, workers


def process() -> subprocess.Popen[bytes]:
    """Start a process that does nothing."""
    return subprocess.Popen(["sleep", "100"])


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pretend that this process has started a Ray with two core processes and an agent; yield the
    three."""
    started = [process() for _ in range(3)]
    raylet, gcs, agent = (psutil.Process(each.pid) for each in started)
    made = local_ray._Session({"raylet": raylet, "gcs_server": gcs}, [agent])
    monkeypatch.setattr(local_ray, "_own_session", lambda: made)
    monkeypatch.setattr(local_ray, "INTERVAL", 0.01)
    monkeypatch.setattr(local_ray, "REPEAT", 0.05)
    yield started
    for each in started:
        each.kill()
        each.wait()


@local_ray.raising_if_ray_dies()
def wait_while_dying(dying: subprocess.Popen[bytes]) -> None:
    dying.kill()
    time.sleep(60)


@pytest.mark.parametrize("which", [0, 1])
def test_waiting_work_ends_when_a_process_of_ray_dies(
    session: list[subprocess.Popen[bytes]], which: int
) -> None:
    name, handler = local_ray.CORE[which], signal.getsignal(local_ray.WAKE)
    with pytest.raises(RayDiedError, match=f"Ray's process {name} has died"):
        wait_while_dying(session[which])
    assert not any(psutil.pid_exists(each.pid) for each in session)
    assert signal.getsignal(local_ray.WAKE) is handler


def test_an_interrupt_that_the_work_catches_is_repeated(
    session: list[subprocess.Popen[bytes]],
) -> None:
    @local_ray.raising_if_ray_dies()
    def stubborn() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            wait_while_dying.__wrapped__(session[0])  # type: ignore[attr-defined]
        time.sleep(60)

    with pytest.raises(RayDiedError):
        stubborn()


def test_an_error_that_follows_from_a_dead_ray_is_replaced(
    session: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ray, "INTERVAL", 60.0)  # the work notices it before the thread

    @local_ray.raising_if_ray_dies()
    def fail() -> None:
        session[0].kill()
        session[0].wait()
        raise RunError("a shard lost 5 workers")

    with pytest.raises(RayDiedError, match="raylet"):
        fail()


def test_ctrl_c_and_errors_pass_unchanged_while_ray_lives(
    session: list[subprocess.Popen[bytes]],
) -> None:
    for error in (KeyboardInterrupt(), RunError("its own")):
        with pytest.raises(type(error)) as raised, local_ray.raising_if_ray_dies():
            raise error
        assert raised.value is error
    assert all(each.poll() is None for each in session)


def test_work_in_a_thread_is_not_interrupted(session: list[subprocess.Popen[bytes]]) -> None:
    session[0].kill()
    done = []

    def work() -> None:
        with local_ray.raising_if_ray_dies():
            time.sleep(0.1)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert done == [True]


def test_a_ray_that_died_between_two_pieces_of_work_is_not_used_again(
    session: list[subprocess.Popen[bytes]],
) -> None:
    session[1].kill()
    session[1].wait()
    with pytest.raises(RayDiedError, match="gcs_server"):
        workers.start_ray([{"CPU": 1.0}])


class StartOfRay:
    """Stands in for `ray.init`: fails some times, each time leaving a process behind."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.left: list[psutil.Process] = []

    def __call__(self, **options: object) -> None:
        assert options["address"] == "local"
        self.left.append(psutil.Process(process().pid))
        if len(self.left) <= self.failures:
            raise Exception("The current node timed out during startup.\nThis could happen.")


@pytest.mark.parametrize("failures", [1, 2])
def test_a_ray_that_does_not_start_is_tried_once_more(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = StartOfRay(failures)
    monkeypatch.setattr(local_ray.ray, "init", start)
    monkeypatch.setattr(local_ray.ray, "shutdown", lambda: None)
    monkeypatch.setattr(local_ray.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(local_ray, "_session_name", lambda: "test")
    monkeypatch.setattr(local_ray, "_sessions", {})
    monkeypatch.setattr(workers.placement, "check_fits", lambda *_: None)
    monkeypatch.setattr(workers, "_machines", list)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if failures == 1:
        workers.start_ray([{"CPU": 1.0}])
    else:
        with pytest.raises(RunError, match="does not start on this machine: The curr"):
            workers.start_ray([{"CPU": 1.0}])
    assert len(start.left) == 2
    assert [local_ray._is_alive(each) for each in start.left] == [False, failures == 1]
    for each in start.left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
