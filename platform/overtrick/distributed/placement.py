"""Compute the resource bundles of a job, and check that the nodes of a Ray cluster can hold them.

A bundle is an amount of each kind of resource, such as CPU or GPU, on one node.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from overtrick.core import UserError

Bundle = dict[str, float]
Bundles = Sequence[Mapping[str, float]]
"""Bundles, or the resources of nodes: amounts by kind."""
MACHINES = "OVERTRICK_MACHINES"  # the environment variable with the nodes of an autoscaler
UNITS = 10_000  # Ray counts resources in ten thousandths
WAYS = 10_000  # placements tried before the search gives up


def trial_bundles(job: dict[str, Any]) -> list[Bundle]:
    """Return the bundles that a Tune trial reserves: its own first, then one for each worker.

    `job`: plain data of the job. With several learners the trial only coordinates them, so its own
    bundle is one CPU.
    """
    several = job["resources"]["learners"] > 1
    own = {"CPU": 1.0} if several else learner_bundle(job["resources"])
    worker = {"CPU": float(job["resources"]["worker_cpus"])}
    return [own] + [worker] * int(job["workers"])


def later_bundles(job: dict[str, Any]) -> list[Bundle]:
    """Return the bundles that Ray Train and Ray Data reserve after a trial has started.

    `job`: plain data of the job. The bundles are for the learners, if there are several, and for
    the processes that read training data.
    """
    learners, readers = (int(job["resources"][kind]) for kind in ("learners", "data_readers"))
    spread = [learner_bundle(job["resources"])] * learners if learners > 1 else []
    return spread + [{"CPU": 1.0}] * readers * learners


def all_bundles(job: dict[str, Any]) -> list[Bundle]:
    """Return all bundles that a job occupies at the same time. `job`: plain data of the job.

    With `single_node` the bundles of the trial and its workers are added up to one bundle.
    """
    own = trial_bundles(job)
    return ([total_resources(own)] if job["resources"]["single_node"] else own) + later_bundles(job)


def learner_bundle(resources: dict[str, Any]) -> Bundle:
    """Return the bundle of one learner. `resources`: the section `resources` of a job."""
    cpus, gpus = (float(resources[kind]) for kind in ("cpus", "gpus"))
    return {"CPU": cpus} | ({"GPU": gpus} if gpus else {})


def with_autoscaler_nodes(machines: Bundles, most: str) -> list[Mapping[str, float]]:
    """Return the resources of the nodes of a cluster, also of those that its autoscaler may add.

    `machines`: the resources of each present node. `most`: all nodes that the cluster may have,
    including the present ones, such as "20x16CPU,4x8CPU+1GPU"; empty: only the present ones. Raises
    UserError if `most` has another form.
    """
    left = []
    for words in most.split(",") if most else ():
        count, _, held = words.strip().partition("x")
        parts = [re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z_]\w*)", part) for part in held.split("+")]
        if not (re.fullmatch(r"\d{1,6}", count, re.ASCII) and all(parts)):
            raise UserError(
                f"{MACHINES}={most}: must list numbers of machines and their resources, such as "
                "20x16CPU,4x8CPU+1GPU"
            )
        left += [{part[2]: float(part[1]) for part in parts if part}] * int(count)
    left.sort(key=len, reverse=True)  # a node with a GPU is not matched as one without
    for machine in machines:
        like = (each for each in left if all(machine.get(k) == n for k, n in each.items()))
        if (there := next(like, None)) is not None:
            left.remove(there)
    return [*machines, *left]


def check_fits(bundles: Bundles, machines: Bundles) -> None:
    """Raise UserError if the nodes can never hold all bundles of a job at the same time.

    `bundles`: all bundles of the job. `machines`: the resources of each node.
    """
    have = total_resources(machines)
    for kind, amount in total_resources(bundles).items():
        if amount > have.get(kind, 0):
            raise UserError(
                f"the job asks for {amount:g} {kind} and the cluster has {have.get(kind, 0):g}: "
                f"lower 'workers' or 'resources'; for a cluster that grows, set {MACHINES}"
            )
    for bundle in bundles:
        gpus = bundle.get("GPU", 0)
        if gpus > 1 and gpus % 1:  # Ray would fail only when the process starts
            raise UserError(
                f"resources.gpus {gpus:g}: Ray gives a process a fraction of a GPU, or whole GPUs: "
                f"ask for {math.ceil(gpus)}"
            )
        if not any(all(each.get(k, 0) >= n for k, n in bundle.items()) for each in machines):
            asked = " and ".join(f"{amount:g} {kind}" for kind, amount in bundle.items())
            raise UserError(
                f"no node of the cluster has {asked} for one process (with single_node: "
                "for the whole job): lower 'resources'"
            )
    if _fits(bundles, machines) is False:
        raise UserError(
            "the nodes of the cluster cannot hold all processes of the job at once, although their "
            "total resources are enough: lower 'workers' or 'resources'"
        )


def copies_that_fit(bundles: Bundles, machines: Bundles, most: int) -> int:
    """Return how many copies of a job the nodes can hold at once, but not more than `most`.

    `bundles`: the resource bundles of one copy. `machines`: the resources of each node. The caller
    must ensure that one copy fits, because the result is at least 1. If the exact search would take
    too long, the result is a lower bound.
    """
    return 1 + bisect(range(2, most + 1), 0, key=lambda k: not _fits([*bundles] * k, machines))


def _fits(bundles: Bundles, machines: Bundles) -> bool | None:
    """Return whether all bundles fit on the nodes at once; None if the search takes too long.

    `machines`: the resources of each node.
    """
    # Only the bundles of rarer sizes are placed one by one, the largest first (depth-first search).
    # Bundles of the most frequent size are then counted into the remaining resources.
    kinds = sorted({kind for bundle in bundles for kind in bundle})
    sizes = Counter(_amounts(bundle, kinds) for bundle in bundles)
    frequent, count = sizes.most_common(1)[0]
    others = sorted((size for size in sizes.elements() if size != frequent), reverse=True)
    start = tuple(sorted(_amounts(machine, kinds) for machine in machines))
    ways = [(0, start)]
    seen: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()
    while ways and len(seen) < WAYS:
        placed, free = ways.pop()
        if placed == len(others):
            if sum(_count_fitting(frequent, room) for room in free) >= count:
                return True
            continue
        for k, room in reversed(list(enumerate(free))):  # the fullest node is tried first
            if _count_fitting(others[placed], room) and room not in free[k - 1 : k]:  # equal nodes
                less = tuple(a - b for a, b in zip(room, others[placed], strict=True))
                way = placed + 1, tuple(sorted((*free[:k], less, *free[k + 1 :])))
                if way not in seen:
                    seen.add(way)
                    ways.append(way)
    return None if ways else False


def _amounts(bundle: Mapping[str, float], kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the amount of each resource in `kinds`, such as CPU, in Ray's integer units.

    `bundle`: amounts by kind, of a bundle or of a node.
    """
    return tuple(round(bundle.get(kind, 0) * UNITS) for kind in kinds)


def _count_fitting(size: tuple[int, ...], room: tuple[int, ...]) -> float:
    """Return the number of bundles of one size that fit into the free resources of one node.

    `size`: the amount of each resource in a bundle. `room`: the free amounts of the node, in the
    same order.
    """
    return min((r // s for s, r in zip(size, room, strict=True) if s), default=math.inf)


def total_resources(bundles: Bundles) -> dict[str, float]:
    """Sum the resources of all bundles by kind."""
    kinds = sorted({kind for bundle in bundles for kind in bundle})
    return {kind: sum(bundle.get(kind, 0) for bundle in bundles) for kind in kinds}
