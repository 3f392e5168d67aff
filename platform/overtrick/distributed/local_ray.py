"""Start Ray on this machine for one command, and end the command if a process of that Ray dies."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from overtrick.core import RayDiedError, RunError
from overtrick.core.lazy_modules import ray

CORE = ("raylet", "gcs_server")  # Ray cannot work without these processes
INTERVAL = 1.0  # seconds between two checks that the processes live
REPEAT = 5.0  # seconds after which the main thread is interrupted again, if it still works
WAKE = signal.SIGUSR2  # SIGUSR1 has a meaning for Ray Tune


@dataclass(frozen=True)
class _Session:
    """The processes of a Ray that this process has started."""

    core: dict[str, psutil.Process]  # those of CORE, by name
    agents: list[psutil.Process]  # that the raylet has started; they may outlive it


_sessions: dict[str, _Session] = {}  # by Ray's name of the session


def start(cpus: int, **options: Any) -> None:
    """Start Ray on this machine with `cpus` CPUs; try once more if it does not start.

    `options`: further arguments of `ray.init`. Raises RunError if Ray does not start.
    """
    for last_try in (False, True):
        before = psutil.Process().children()
        try:
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **options)
            break
        except Exception as error:  # on a busy machine; Ray raises a plain Exception
            ray.shutdown()
            _kill(p for p in psutil.Process().children() if p not in before)
            if last_try:
                raise RunError(
                    f"Ray does not start on this machine: {error} Run the command again when the "
                    "machine is less busy and has free memory"
                ) from None
    started = [p for p in psutil.Process().children() if p not in before]
    names = {process: _name(process) for process in started}
    core = {name: process for process, name in names.items() if name in CORE}
    agents = _children(core["raylet"]) if "raylet" in core else []
    _sessions[_session_name()] = _Session(core, agents)


def dead_process() -> str:
    """Return the name of a process of this machine's Ray that has died; empty if all live.

    Also empty if this process has started no Ray, for example on a cluster.
    """
    session = _own_session()
    core = session.core if session else {}
    return next((name for name, process in core.items() if not _is_alive(process)), "")


def check_alive() -> None:
    """Raise RayDiedError if a process of this machine's Ray has died."""
    if name := dead_process():
        raise RayDiedError(f"Ray's process {name} has died, perhaps because memory ran out")


@contextmanager
def raising_if_ray_dies() -> Iterator[None]:
    """Context manager that raises RayDiedError if a process of this machine's Ray dies in it.

    Otherwise Ray and Tune would wait for the dead process forever. A thread checks the processes.
    If one has died, the thread interrupts the block by a signal, and the others are killed. A block
    outside the main thread cannot be interrupted; it must end on its own.
    """
    session, over = _own_session(), threading.Event()
    if session is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        if not over.is_set():
            raise KeyboardInterrupt  # no other exception ends a call in which Ray waits

    def check() -> None:
        wait = INTERVAL
        while not over.wait(wait):
            if dead_process():
                signal.pthread_kill(threading.main_thread().ident or 0, WAKE)
                wait = REPEAT

    earlier = signal.signal(WAKE, interrupt)
    thread = threading.Thread(target=check, name="watch Ray", daemon=True)
    thread.start()
    try:
        yield
    except (Exception, KeyboardInterrupt):
        if not dead_process():
            raise
    finally:
        over.set()
        thread.join()
        signal.signal(WAKE, earlier or signal.SIG_DFL)
    try:
        check_alive()
    except RayDiedError:
        workers = [each for core in session.core.values() for each in _children(core)]
        _kill([*session.core.values(), *session.agents, *workers])
        raise


def _own_session() -> _Session | None:
    """Return the Ray to which this process is connected; None if it has not started that Ray."""
    return _sessions.get(_session_name()) if ray.is_initialized() else None


def _session_name() -> str:
    return str(ray.get_runtime_context().get_session_name())


def _name(process: psutil.Process) -> str:
    """Return the name of a process; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


def _children(process: psutil.Process) -> list[psutil.Process]:
    """Return all processes that a process has started and they in turn; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return list(process.children(recursive=True))
    return []


def _is_alive(process: psutil.Process) -> bool:
    """Return True if a process has not ended. A zombie has."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _kill(processes: Iterable[psutil.Process]) -> None:
    """Kill processes and wait until they have ended."""
    killed = list(processes)
    for process in killed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(killed, timeout=10)
