"""Who does the work: Ray actors, or this process. The same shards, the same results.

Work is cut into shards of fixed size. Shard k always gets the k-th spawned generator, results
are joined in shard order, and a shard whose worker died is simply run again, so the numbers do
not depend on how many workers there are or on what happens to them.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import ray
import torch
from numpy.random import Generator
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
)
from ray.util.debug import disable_log_once_globally

from overtrick.core import Array, RunError, UserError
from overtrick.core.ray_metrics import WorkerMetrics
from overtrick.distributed.placement import MACHINES, check_room, grown, times, total

LOST = (RayActorError, ObjectLostError, OutOfMemoryError, NodeDiedError)
LOSSES = 5  # workers that one shard may take down before the run gives up
SOON = 1.0  # seconds; if the first shard is done by then, a worker always has the next one too
Shard = tuple[Any, ...]
Work = Callable[..., Any]
"""A function of (generator, common, *shard) at the top of a module."""
Told = Callable[[int, Any], None]
"""Hears of a shard, by its number, and of its result."""


def _nobody(shard: int, result: Any) -> None:
    """Nobody listens."""


class Hostable(Protocol):
    """An object that an actor can host: all that it knows is in its state."""

    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


class RemoteObject(Protocol):
    """A hosted object: call its methods by name."""

    def call(self, method: str, *args: Any) -> Any: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


def chunks(total: int, size: int) -> list[Shard]:
    """Cut work of a total size into shards (count,) of a fixed size; the last may be smaller."""
    return [(min(size, total - first),) for first in range(0, total, size)]


def array_chunks(size: int, *arrays: np.ndarray) -> list[Shard]:
    """Cut arrays of one length into shards (rows of each array,) of at most `size` rows."""
    return [tuple(a[k : k + size] for a in arrays) for k in range(0, len(arrays[0]), size)]


class WorkerPool(Protocol):
    """Runs shards and hosts objects."""

    def map(
        self, work: Work, common: Any, shards: Sequence[Shard], rng: Generator, told: Told = _nobody
    ) -> list[Any]:
        """work(generator, common, *shard) for every shard, results in shard order.

        told hears of each shard and its result when it is done, in any order.
        """

    def host(self, thing: Hostable) -> RemoteObject:
        """Give an object a home."""

    def close(self) -> None: ...


def start_pool(workers: int, cpus: float = 1.0) -> WorkerPool:
    """A crew of so many Ray actors, with so many CPUs each; with 0 the same work is done in this
    process."""
    return RayPool(workers, cpus) if workers else LocalPool()


class LocalPool:
    """All work in this process, one shard after the other."""

    def map(
        self, work: Work, common: Any, shards: Sequence[Shard], rng: Generator, told: Told = _nobody
    ) -> list[Any]:
        results = []
        for k, (child, shard) in enumerate(zip(rng.spawn(len(shards)), shards, strict=True)):
            results.append(_run(work, child, common, shard))
            told(k, results[k])
        return results

    def host(self, thing: Hostable) -> RemoteObject:
        return _LocalHost(thing)

    def close(self) -> None:
        """Nothing to give back."""


class RayPool:
    """Work on Ray actors; a dead one is replaced and its shard run again."""

    def __init__(self, workers: int, cpus: float = 1.0) -> None:
        self._cpus = cpus
        self._workers = [_new_worker(cpus) for _ in range(workers)]
        self._hosts: list[_RayHost] = []

    def map(
        self, work: Work, common: Any, shards: Sequence[Shard], rng: Generator, told: Told = _nobody
    ) -> list[Any]:
        shared, rngs = ray.put(common), rng.spawn(len(shards))
        waiting, workers = deque(range(len(shards))), range(len(self._workers))
        load, most = [0 for _ in workers], 1  # shards that each worker has, and may have
        running: dict[Any, tuple[int, int, Any]] = {}
        results: list[Any] = [None] * len(shards)
        losses, began = [0] * len(shards), time.perf_counter()
        while waiting or running:
            while waiting:
                worker = min(workers, key=load.__getitem__)
                if load[worker] >= (most if len(waiting) > len(workers) else 1):
                    break  # the last ones go to whoever is free first
                shard, actor = waiting.popleft(), self._workers[worker]
                call = actor.run.remote(work, rngs[shard], shared, shards[shard])
                running[call] = (shard, worker, actor)
                load[worker] += 1
            first = len(waiting) + len(running) == len(shards)
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            if first and time.perf_counter() - began < SOON:
                most = 2
            shard, worker, actor = running.pop(done)
            load[worker] -= 1
            try:
                result = ray.get(done)
            except LOST as error:
                losses[shard] += 1
                if losses[shard] == LOSSES:
                    raise RunError(f"shard {shard} lost {LOSSES} workers: {error}") from error
                if self._workers[worker] is actor:  # its other shard may have told of it before
                    ray.kill(actor)  # it may only be out of reach, and hold its CPU
                    self._workers[worker] = _new_worker(self._cpus)
                waiting.appendleft(shard)
            except RayTaskError as error:
                raise error.as_instanceof_cause() from None
            else:
                results[shard] = result
                told(shard, result)
        return results

    def host(self, thing: Hostable) -> RemoteObject:
        self._hosts.append(_RayHost(thing))
        return self._hosts[-1]

    def close(self) -> None:
        for actor in (*self._workers, *(host.actor for host in self._hosts)):
            ray.kill(actor)


class _LocalHost:
    def __init__(self, thing: Hostable) -> None:
        self._thing = thing

    def call(self, method: str, *args: Any) -> Any:
        return getattr(self._thing, method)(*args)

    def state(self) -> dict[str, Array]:
        return self._thing.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self._thing.load(state)


class _RayHost:
    """An object behind an actor. Its state after each call is kept here: if the actor dies, a
    new one takes up from it and the call is made again."""

    def __init__(self, thing: Hostable) -> None:
        self._thing = thing
        self._state = thing.state()
        self.actor = _new_host(thing)

    def call(self, method: str, *args: Any) -> Any:
        for _ in range(LOSSES):
            try:
                result, self._state = ray.get(self.actor.call.remote(method, args))
                return result
            except LOST:
                ray.kill(self.actor)  # it may only be out of reach, and a second one would run
                self._thing.load(self._state)
                self.actor = _new_host(self._thing)
            except RayTaskError as error:
                raise error.as_instanceof_cause() from None
        raise RunError(f"{method}: the host died {LOSSES} times")

    def state(self) -> dict[str, Array]:
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        self.call("load", state)


def _run(work: Work, rng: Generator, common: Any, shard: Shard) -> Any:
    """One shard on one thread: sums must not depend on how many threads share them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work(rng, common, *shard)
    finally:
        torch.set_num_threads(threads)


@ray.remote(max_restarts=0)
class _Worker:
    def __init__(self) -> None:
        self._meters = WorkerMetrics()

    def run(self, work: Work, rng: Generator, common: Any, shard: Shard) -> Any:
        with self._meters.shard():
            return _run(work, rng, common, shard)


@ray.remote(num_cpus=0, max_restarts=0)
class _Hosting:
    def __init__(self, thing: Hostable) -> None:
        self._thing = thing

    def call(self, method: str, args: Shard) -> Any:
        return getattr(self._thing, method)(*args), self._thing.state()


def _new_worker(cpus: float) -> Any:
    actor: Any = _Worker
    return actor.options(num_cpus=cpus).remote()


def _new_host(thing: Hostable) -> Any:
    actor: Any = _Hosting
    return actor.remote(thing)


def start_ray(bundles: Sequence[Mapping[str, float]]) -> None:
    """Join the cluster of RAY_ADDRESS, or start Ray on this machine, and check that it can serve.

    On this machine Ray is told of as many CPUs as the bundles ask for: with fewer cores the
    learner and its workers take turns. Raises UserError if a cluster does not let us in, or can
    never fit the bundles, nor when it has grown as far as it may, where Tune would wait for ever.
    """
    wanted = total(bundles)
    disable_log_once_globally()  # Tune keeps every state that it saves as text, to tell it once
    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if cluster := os.environ.get("RAY_ADDRESS"):
            host, _, port = cluster.rpartition(":")
            try:
                if port.isdecimal():  # Ray would call for many minutes to where nobody is
                    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                ray.init(**quiet)
            except (OSError, ValueError, RuntimeError, RayError) as error:
                raise UserError(
                    f"RAY_ADDRESS={cluster}: {error}: set it to HEAD:6379, or to auto on a machine "
                    "of the cluster, and RAY_AUTH_TOKEN as on its head"
                ) from None
        else:
            cpus = int(np.ceil(max(wanted["CPU"], os.cpu_count() or 1)))
            quiet["_system_config"] = {"task_events_report_interval_ms": 0}  # nobody is shown them
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
    check_room(bundles, _machines())


def room_for(bundles: Sequence[Mapping[str, float]], most: int) -> int:
    """How many times, at most so many, the cluster of `start_ray` holds all these bundles."""
    return times(bundles, _machines(), most)


def _machines() -> list[Mapping[str, float]]:
    """What each node of the cluster has, and each that it may yet get: Ray's autoscaler makes them
    when they are asked for, and tells nobody before."""
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return grown(there, os.environ.get(MACHINES, "") if os.environ.get("RAY_ADDRESS") else "")


class RngStream(IntEnum):
    """The first part of a generator's key: what the numbers are for."""

    INITIAL = 0
    TRAIN = 1
    JUDGE = 2
    SEARCH = 3


def generator(seed: int, *key: int) -> Generator:
    """The generator of one piece of work, from the job's seed and the place of the work."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
