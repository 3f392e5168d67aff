"""Worker pools that run shards of work on Ray actors or in this process, with equal results.

Work is cut into shards of a fixed size. For shard k, the caller's random generator spawns its k-th
child generator, and results are joined in the order of the shards. If a worker dies, its shard is
run again. So results depend neither on the number of workers nor on their failures.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from overtrick import startup
from overtrick.core import Array, RunError, UserError, tracing
from overtrick.core.devices import on_cpu
from overtrick.core.lazy_modules import ray, torch
from overtrick.core.ray_metrics import WorkerMetrics, count_games, games_played
from overtrick.distributed import local_ray, placement

LOST = ("RayActorError", "ObjectLostError", "OutOfMemoryError", "NodeDiedError")
"""Ray's exceptions after which a shard is run again, or an object hosted again."""
MAX_LOSSES = 5  # workers that may die on one shard before the run fails
SHORT_SHARD = 1.0  # seconds; if the first shard is shorter, workers get two at a time
Shard = tuple[Any, ...]
Shards = Sequence[Shard]
Work = Callable[..., Any]
"""A module-level function of (generator, common, *shard); Ray pickles it by name."""
OnResult = Callable[[int, Any], None]
"""Callback: receives the number of a finished shard and its result."""


def _ignore(shard: int, result: Any) -> None:
    """Ignore a finished shard; the default of the callback `on_result`."""


class Hostable(Protocol):
    """Interface of an object that a Ray actor can host.

    The object's state contains all that a copy needs to continue after the actor died.
    """

    def state(self) -> dict[str, Array]:
        """Return the object's state as arrays by name."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state of this object.

        `state`: arrays by name, as the method `state` returns them.
        """


class RemoteObject(Hostable, Protocol):
    """Handle to an object on a Ray actor or in this process; calls the object's methods by name."""

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the hosted object and return the method's result."""


def chunks(total: int, size: int) -> list[Shard]:
    """Cut `total` items into shards of at most `size` items.

    A shard is a tuple with one element: the number of its items.
    """
    return [(min(size, total - first),) for first in range(0, total, size)]


def array_chunks(size: int, *arrays: np.ndarray) -> list[Shard]:
    """Cut arrays of equal length into shards: tuples with at most `size` rows of each array."""
    return [tuple(a[k : k + size] for a in arrays) for k in range(0, len(arrays[0]), size)]


class WorkerPool(Protocol):
    """Interface of a pool of workers that runs shards of work and hosts objects."""

    def map(
        self, work: Work, common: Any, shards: Shards, rng: Generator, on_result: OnResult = _ignore
    ) -> list[Any]:
        """Return the results of work(generator, common, *shard) for all shards, in their order.

        `common`: an argument that is the same for all shards. `shards`: tuples of further
        arguments, one for each piece of work. `rng`: spawns one generator for each shard.
        `on_result`: called after each shard with the shard's number and result, in any order.
        """

    def host(self, thing: Hostable) -> RemoteObject:
        """Host an object, on a Ray actor or in this process, and return a handle to it."""

    def close(self) -> None:
        """Stop the workers, and the Ray actors that host objects."""


def start_pool(workers: int, cpus: float = 1.0) -> WorkerPool:
    """Start a pool of Ray actors with `cpus` CPUs each; with 0 workers, return a LocalPool."""
    return RayPool(workers, cpus) if workers else LocalPool()


@contextmanager
def open_pool(workers: int) -> Iterator[WorkerPool]:
    """Context manager that starts `workers` Ray workers and stops them after the block.

    With 0 workers, this process does the work. Raises RayDiedError if a Ray of this machine dies.
    """
    if workers:
        start_ray([{"CPU": 1.0}] * workers)
    with local_ray.raising_if_ray_dies():
        pool = start_pool(workers)
        try:
            yield pool
        finally:
            if not local_ray.dead_process():  # closing would wait for it without end
                pool.close()


class LocalPool:
    """Worker pool that runs all shards in this process, one after another.

    It computes on the CPU, as the workers of a RayPool do. With `on_learner_device` it computes
    where the learner does, which may be a GPU.
    """

    def __init__(self, on_learner_device: bool = False) -> None:
        self._context = nullcontext if on_learner_device else _as_in_workers

    def map(
        self, work: Work, common: Any, shards: Shards, rng: Generator, on_result: OnResult = _ignore
    ) -> list[Any]:
        """Return the results of work(generator, common, *shard) for all shards, in their order.

        `common`: an argument that is the same for all shards. `shards`: tuples of further
        arguments, one for each piece of work. `rng`: spawns one generator for each shard.
        """
        results = []
        for k, (child, shard) in enumerate(zip(rng.spawn(len(shards)), shards, strict=True)):
            with tracing.span("shard", shard=k), self._context():
                results.append(work(child, common, *shard))
            on_result(k, results[k])
        return results

    def host(self, thing: Hostable) -> RemoteObject:
        """Return a handle to an object, which stays in this process."""
        return _LocalHost(thing)

    def close(self) -> None:
        """Do nothing, because there are no workers."""


class RayPool:
    """Worker pool of Ray actors. A dead actor is replaced, and its shard is run again."""

    def __init__(self, workers: int, cpus: float = 1.0) -> None:
        self._cpus = cpus
        self._workers = [_new_worker(cpus) for _ in range(workers)]
        self._hosts: list[_RayHost] = []

    def map(
        self, work: Work, common: Any, shards: Shards, rng: Generator, on_result: OnResult = _ignore
    ) -> list[Any]:
        """Return the results of work(generator, common, *shard) for all shards, in their order.

        `common`: an argument that is the same for all shards. `shards`: tuples of further
        arguments, one for each piece of work. `rng`: spawns one generator for each shard.
        `on_result`: called in this process after each shard with the shard's number and result, in
        any order. A shard whose worker died is run again with the same generator. Raises RunError
        if MAX_LOSSES workers died on one shard. Errors of `work` are raised unchanged.
        """
        shared, rngs, carrier = ray.put(common), rng.spawn(len(shards)), tracing.carrier()
        waiting, workers = deque(range(len(shards))), range(len(self._workers))
        load, most = [0 for _ in workers], 1  # shards per worker now, and at most
        running: dict[Any, tuple[int, int, Any]] = {}
        results: list[Any] = [None] * len(shards)
        losses, began = [0] * len(shards), time.perf_counter()
        while waiting or running:
            while waiting:
                worker = min(workers, key=load.__getitem__)
                if load[worker] >= (most if len(waiting) > len(workers) else 1):
                    break  # the last shards go to the first free workers
                shard, actor = waiting.popleft(), self._workers[worker]
                call = actor.run.remote(work, rngs[shard], shared, shards[shard], shard, carrier)
                running[call] = (shard, worker, actor)
                load[worker] += 1
            first = len(waiting) + len(running) == len(shards)
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            if first and time.perf_counter() - began < SHORT_SHARD:
                most = 2
            shard, worker, actor = running.pop(done)
            load[worker] -= 1
            try:
                result, games = ray.get(done)
            except _lost() as error:
                losses[shard] += 1
                if losses[shard] == MAX_LOSSES:
                    raise RunError(f"shard {shard} lost {MAX_LOSSES} workers: {error}") from error
                if self._workers[worker] is actor:  # not yet replaced when its other shard failed
                    ray.kill(actor)  # it may be alive but unreachable, and hold its CPU
                    self._workers[worker] = _new_worker(self._cpus)
                waiting.appendleft(shard)
            except ray.exceptions.RayTaskError as error:
                raise _error_of(error) from None
            else:
                results[shard] = result
                count_games(games)
                on_result(shard, result)
        return results

    def host(self, thing: Hostable) -> RemoteObject:
        """Start an actor that hosts an object, and return a handle to it."""
        self._hosts.append(_RayHost(thing))
        return self._hosts[-1]

    def close(self) -> None:
        """Kill the workers and the actors that host objects."""
        if tracing.is_enabled():
            calls = [worker.flush_spans.remote() for worker in self._workers]
            ray.wait(calls, num_returns=len(calls), timeout=tracing.PATIENCE)
        for actor in (*self._workers, *(host.actor for host in self._hosts)):
            ray.kill(actor)


class _LocalHost:
    """Handle to an object hosted in this process, with the same methods as `_RayHost`."""

    def __init__(self, thing: Hostable) -> None:
        self._thing = thing

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the hosted object and return the method's result."""
        return getattr(self._thing, method)(*args)

    def state(self) -> dict[str, Array]:
        """Return the state of the hosted object."""
        return self._thing.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state of the hosted object."""
        self._thing.load(state)


class _RayHost:
    """Handle to an object that is hosted by a Ray actor.

    The handle receives a copy of the object's state after each call. If the actor dies, a new actor
    is started from that state and the call is repeated.
    """

    def __init__(self, thing: Hostable) -> None:
        self._thing = thing
        self._state = thing.state()
        self.actor = _new_host(thing)

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the hosted object on the Ray actor and return the method's result.

        If the actor died, a new actor repeats the call. Raises RunError after MAX_LOSSES deaths.
        """
        for _ in range(MAX_LOSSES):
            try:
                result, self._state = ray.get(self.actor.call.remote(method, args))
                return result
            except _lost():
                ray.kill(self.actor)  # it may be alive but unreachable
                self._thing.load(self._state)
                self.actor = _new_host(self._thing)
            except ray.exceptions.RayTaskError as error:
                raise _error_of(error) from None
        raise RunError(f"{method}: the host died {MAX_LOSSES} times")

    def state(self) -> dict[str, Array]:
        """Return the state that the hosted object had after the last call."""
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state of the hosted object on the Ray actor."""
        self.call("load", state)


def _error_of(error: Any) -> Exception:
    """Return the exception of a worker for a RayTaskError.

    UserError and RunError are returned as they were raised, with their one line. The text of any
    other exception has the worker's traceback.
    """
    if isinstance(error.cause, (UserError, RunError)):
        return error.cause
    found: Exception = error.as_instanceof_cause()
    return found


def _lost() -> tuple[type[BaseException], ...]:
    """Return the exceptions named in LOST."""
    return tuple(getattr(ray.exceptions, name) for name in LOST)


@contextmanager
def _as_in_workers() -> Iterator[None]:
    """Context manager in which PyTorch computes on the CPU by one thread.

    The rounding of float sums depends on the number of threads and on the device. A learner's
    process that plays the games itself (`workers: 0`) has the same results as a worker, even if the
    learner uses a GPU.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with on_cpu():
            yield
    finally:
        torch.set_num_threads(threads)


class _Worker:
    """Ray actor that computes one shard (piece of work) a call, and records Ray metrics."""

    def __init__(self) -> None:
        self._meters = WorkerMetrics()

    def run(
        self, work: Work, rng: Generator, common: Any, shard: Shard, number: int,
        carrier: tracing.Carrier,
    ) -> tuple[Any, int]:  # fmt: skip
        """Compute work(rng, common, *shard) on one PyTorch thread.

        `number`: of the shard. `carrier`: of the span to which the shard belongs. Returns the
        result, and the number of games played for it.
        """
        before = games_played()
        with self._meters.shard(), tracing.span("shard", carrier, shard=number), _as_in_workers():
            result = work(rng, common, *shard)
        return result, games_played() - before

    def flush_spans(self) -> None:
        """Send this worker's spans to their collector, before the worker is killed."""
        tracing.flush()


class _HostActor:
    """Ray actor that hosts an object and runs the object's methods."""

    def __init__(self, thing: Hostable) -> None:
        self._thing = thing

    def call(self, method: str, args: Shard) -> Any:
        """Call a method of the hosted object; return the method's result and the new state."""
        return getattr(self._thing, method)(*args), self._thing.state()


@cache
def _actor_class(kind: type) -> Any:
    """Return the class of Ray actors for `_Worker` or `_HostActor`."""
    return ray.remote(max_restarts=0)(kind)


def _new_worker(cpus: float) -> Any:
    return _actor_class(_Worker).options(num_cpus=cpus).remote()


def _new_host(thing: Hostable) -> Any:
    return _actor_class(_HostActor).options(num_cpus=0).remote(thing)


def start_ray(bundles: Sequence[Mapping[str, float]]) -> None:
    """Connect to the cluster of RAY_ADDRESS, or start Ray on this machine.

    `bundles`: the resources of each process that will run at the same time: amounts by kind, such
    as CPU. A local Ray gets as many CPUs as the bundles need; if the machine has fewer cores, the
    processes share them. Raises UserError if the cluster refuses the connection. Also raises it if
    the cluster can never hold the bundles, even after autoscaling, because Tune would wait forever.
    Raises RunError if a local Ray cannot start, RayDiedError if the one in use has died.
    """
    wanted = placement.total_resources(bundles)
    ray.util.debug.disable_log_once_globally()  # otherwise Tune keeps every saved state as text
    local_ray.check_alive()
    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if cluster := os.environ.get("RAY_ADDRESS"):
            startup.drop_generated_token()  # RAY_ADDRESS may have been set after the import
            host, _, port = cluster.rpartition(":")
            try:
                if port.isdecimal():  # Ray would try an unreachable address for minutes
                    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                ray.init(**quiet)
            except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
                raise UserError(
                    f"RAY_ADDRESS={cluster}: {error}: set it to HEAD:6379, or to auto on a machine "
                    "of the cluster, and RAY_AUTH_TOKEN as on its head"
                ) from None
        else:
            cpus = int(np.ceil(max(wanted["CPU"], os.cpu_count() or 1)))
            quiet["_system_config"] = {"task_events_report_interval_ms": 0}  # nobody reads them
            local_ray.start(cpus, **quiet)
    placement.check_fits(bundles, _machines())


def room_for(bundles: Sequence[Mapping[str, float]], most: int) -> int:
    """Return how many copies of a job the cluster can hold at once, but not more than `most`.

    `bundles`: the resources of each process of one copy of the job, such as {"CPU": 1}.
    The caller must ensure that one copy fits, because the result is at least 1.
    """
    return placement.copies_that_fit(bundles, _machines(), most)


def _machines() -> list[Mapping[str, float]]:
    """Return the resources of each node, including nodes that the autoscaler may add.

    Ray does not know the nodes of the autoscaler before they start. Therefore their resources are
    read from the environment variable OVERTRICK_MACHINES.
    """
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    most = os.environ.get(placement.MACHINES, "") if os.environ.get("RAY_ADDRESS") else ""
    return placement.with_autoscaler_nodes(there, most)


class RngStream(IntEnum):
    """Random number streams, one for each purpose, such as training or evaluation.

    The stream is the first element of the argument `key` of `generator`. Generators of different
    streams are independent.
    """

    INITIAL = 0
    TRAIN = 1
    EVALUATE = 2
    SEARCH = 3


def generator(seed: int, *key: int) -> Generator:
    """Return the random generator for one piece of work, independent of all other generators.

    `seed`: the job's seed. `key`: an RngStream, followed by numbers that identify the work.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
