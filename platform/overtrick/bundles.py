"""What a job asks a cluster for: bundles of resources by kind, each of them on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from overtrick.core import Refused

Bundle = dict[str, float]


def together(job: dict[str, Any]) -> list[Bundle]:
    """What a trial asks Tune for, first for itself, then for each worker; one that speaks for
    several learners needs little."""
    several = job["resources"]["learners"] > 1
    own = {"CPU": 1.0} if several else learner(job["resources"])
    worker = {"CPU": float(job["resources"]["worker_cpus"])}
    return [own] + [worker] * int(job["workers"])


def apart(job: dict[str, Any]) -> list[Bundle]:
    """What Ray Train and Ray Data ask for by themselves, once the trial runs."""
    learners, readers = (int(job["resources"][kind]) for kind in ("learners", "readers"))
    spread = [learner(job["resources"])] * learners if learners > 1 else []
    return spread + [{"CPU": 1.0}] * readers * learners


def learner(resources: dict[str, Any]) -> Bundle:
    """What one learner needs."""
    cpus, gpus = (float(resources[kind]) for kind in ("cpus", "gpus"))
    return {"CPU": cpus} | ({"GPU": gpus} if gpus else {})


def check_room(
    bundles: Sequence[Mapping[str, float]], machines: Sequence[Mapping[str, float]]
) -> None:
    """Raise Refused if bundles can never find room on machines, each all its own."""
    have = total(machines)
    for kind, amount in total(bundles).items():
        if amount > have.get(kind, 0):
            raise Refused(
                f"the job asks for {amount:g} {kind} and the cluster has {have.get(kind, 0):g}: "
                "lower 'workers' or 'resources'"
            )
    for bundle in bundles:
        if not any(all(each.get(k, 0) >= n for k, n in bundle.items()) for each in machines):
            asked = " and ".join(f"{amount:g} {kind}" for kind, amount in bundle.items())
            raise Refused(
                f"no node of the cluster has {asked} for one process, or for all that are to be "
                "together: lower 'resources'"
            )


def total(bundles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What bundles come to, by kind."""
    kinds = sorted({kind for bundle in bundles for kind in bundle})
    return {kind: sum(bundle.get(kind, 0) for bundle in bundles) for kind in kinds}
