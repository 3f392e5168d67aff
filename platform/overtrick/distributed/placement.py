"""What a job asks a cluster for: bundles of resources by kind, each of them on one node."""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from overtrick.core import UserError

Bundle = dict[str, float]
MACHINES = "OVERTRICK_MACHINES"  # what a cluster that grows may have
UNITS = 10_000  # Ray counts in ten thousandths
WAYS = 10_000  # to place bundles that are looked at


def trial_bundles(job: dict[str, Any]) -> list[Bundle]:
    """What a trial asks Tune for, first for itself, then for each worker; one that speaks for
    several learners needs little."""
    several = job["resources"]["learners"] > 1
    own = {"CPU": 1.0} if several else learner_bundle(job["resources"])
    worker = {"CPU": float(job["resources"]["worker_cpus"])}
    return [own] + [worker] * int(job["workers"])


def later_bundles(job: dict[str, Any]) -> list[Bundle]:
    """What Ray Train and Ray Data ask for by themselves, once the trial runs."""
    learners, readers = (int(job["resources"][kind]) for kind in ("learners", "data_readers"))
    spread = [learner_bundle(job["resources"])] * learners if learners > 1 else []
    return spread + [{"CPU": 1.0}] * readers * learners


def all_bundles(job: dict[str, Any]) -> list[Bundle]:
    """All that a job needs at once, each on one node."""
    own = trial_bundles(job)
    return ([total(own)] if job["resources"]["single_node"] else own) + later_bundles(job)


def learner_bundle(resources: dict[str, Any]) -> Bundle:
    """What one learner needs."""
    cpus, gpus = (float(resources[kind]) for kind in ("cpus", "gpus"))
    return {"CPU": cpus} | ({"GPU": gpus} if gpus else {})


def grown(machines: Sequence[Mapping[str, float]], most: str) -> list[Mapping[str, float]]:
    """Machines, and those that may yet join them: most is what a cluster that grows may have, such
    as 20x16CPU,4x8CPU+1GPU, in which the machines that are there are counted. Raises UserError."""
    left = []
    for words in most.split(",") if most else ():
        count, _, held = words.strip().partition("x")
        parts = [re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z_]\w*)", part) for part in held.split("+")]
        if not (count.isdecimal() and all(parts)):
            raise UserError(
                f"{MACHINES}={most}: must be machines by their number and what each has, such as "
                "20x16CPU,4x8CPU+1GPU"
            )
        left += [{part[2]: float(part[1]) for part in parts if part}] * int(count)
    left.sort(key=len, reverse=True)  # one with a GPU is no other's, though it has as many CPUs
    for machine in machines:
        like = (each for each in left if all(machine.get(k) == n for k, n in each.items()))
        if (there := next(like, None)) is not None:
            left.remove(there)
    return [*machines, *left]


def check_room(
    bundles: Sequence[Mapping[str, float]], machines: Sequence[Mapping[str, float]]
) -> None:
    """Raise UserError if bundles can never find room on machines, each all its own."""
    have = total(machines)
    for kind, amount in total(bundles).items():
        if amount > have.get(kind, 0):
            raise UserError(
                f"the job asks for {amount:g} {kind} and the cluster has {have.get(kind, 0):g}: "
                f"lower 'workers' or 'resources'; of a cluster that grows, set {MACHINES}"
            )
    for bundle in bundles:
        if (gpus := bundle.get("GPU", 0)) > 1 and gpus % 1:  # Ray would fail when it is started
            raise UserError(
                f"resources.gpus {gpus:g}: Ray gives a process a part of one GPU, or whole ones: "
                f"ask for {math.ceil(gpus)}"
            )
        if not any(all(each.get(k, 0) >= n for k, n in bundle.items()) for each in machines):
            asked = " and ".join(f"{amount:g} {kind}" for kind, amount in bundle.items())
            raise UserError(
                f"no node of the cluster has {asked} for one process, or for all that are to be "
                "together: lower 'resources'"
            )
    if _fit(bundles, machines) is False:
        raise UserError(
            "the nodes of the cluster cannot hold at once what each process of the job keeps, "
            "though all of them together have as much: lower 'workers' or 'resources'"
        )


def times(
    bundles: Sequence[Mapping[str, float]], machines: Sequence[Mapping[str, float]], most: int
) -> int:
    """How many times, at most so many, machines that can hold bundles do so, if they lie well; as
    far as can be looked."""
    return 1 + bisect(range(2, most + 1), 0, key=lambda k: not _fit([*bundles] * k, machines))


def _fit(
    bundles: Sequence[Mapping[str, float]], machines: Sequence[Mapping[str, float]]
) -> bool | None:
    """Can all bundles lie on machines at once? The kind with the most bundles is counted into the
    room that the others leave, which are placed in all ways, the largest first; None if there are
    more ways than can be looked at."""
    kinds = sorted({kind for bundle in bundles for kind in bundle})
    sizes = Counter(_amounts(bundle, kinds) for bundle in bundles)
    many, count = sizes.most_common(1)[0]
    few = sorted((size for size in sizes.elements() if size != many), reverse=True)
    start = tuple(sorted(_amounts(machine, kinds) for machine in machines))
    ways = [(0, start)]
    seen: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()
    while ways and len(seen) < WAYS:
        placed, free = ways.pop()
        if placed == len(few):
            if sum(_times(many, room) for room in free) >= count:
                return True
            continue
        for k, room in reversed(list(enumerate(free))):  # what has the least room is tried first
            if _times(few[placed], room) and room not in free[k - 1 : k]:  # they lie in order
                less = tuple(a - b for a, b in zip(room, few[placed], strict=True))
                way = placed + 1, tuple(sorted((*free[:k], less, *free[k + 1 :])))
                if way not in seen:
                    seen.add(way)
                    ways.append(way)
    return None if ways else False


def _amounts(bundle: Mapping[str, float], kinds: Sequence[str]) -> tuple[int, ...]:
    """How much of each kind, in the units in which Ray counts."""
    return tuple(round(bundle.get(kind, 0) * UNITS) for kind in kinds)


def _times(size: tuple[int, ...], room: tuple[int, ...]) -> float:
    """How many bundles of a size find room."""
    return min((r // s for s, r in zip(size, room, strict=True) if s), default=math.inf)


def total(bundles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What bundles come to, by kind."""
    kinds = sorted({kind for bundle in bundles for kind in bundle})
    return {kind: sum(bundle.get(kind, 0) for bundle in bundles) for kind in kinds}
