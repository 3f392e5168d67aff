"""What a job asks a cluster for: bundles of resources by kind, each of them on one node."""

from __future__ import annotations

from typing import Any

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
