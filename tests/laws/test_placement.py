"""Resources that a job requests from a cluster; requests that can never be met are refused."""

from __future__ import annotations

from typing import Any

import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.placement import (
    all_bundles,
    check_fits,
    copies_that_fit,
    total_resources,
    with_autoscaler_nodes,
)
from overtrick.runs.tune_trial import Trial
from overtrick.training.registry import JOBS

JOB: dict[str, Any] = {"trainer": "meta", "game": "kuhn", "workers": 2}
SMALL, LARGE = {"CPU": 4.0, "memory": 1e9}, {"CPU": 8.0, "GPU": 1.0, "memory": 1e9}


def request(resources: dict[str, Any]) -> Any:
    """Return the placement request of a job's resources."""
    job = job_file.parse({**JOB, "resources": resources}, JOBS, "job.yaml")
    run = {"job": job.model_dump(mode="json"), "number": 0, "last": 1, "resume": None}
    return Trial.default_resource_request({"run": run})


def test_a_trial_requests_its_learner_first_and_then_each_worker() -> None:
    given = request({"cpus": 2, "worker_cpus": 0.5})
    assert given.bundles == [{"CPU": 2.0}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert given.strategy == "PACK"
    assert request({"single_node": True}).strategy == "STRICT_PACK"


@pytest.mark.parametrize(
    ("bundles", "together", "machines"),
    [
        ([{"CPU": 4.0}, {"CPU": 8.0}], False, [SMALL, LARGE]),
        ([{"CPU": 4.0, "GPU": 0.5}, {"CPU": 4.0}], True, [SMALL, LARGE]),
        ([{"CPU": 1.0, "GPU": 0.25}] * 4, False, [LARGE]),
        # the learner must leave the larger node to the workers, or take it from them
        ([{"CPU": 2.0}] + [{"CPU": 3.0}] * 2, False, [{"CPU": 6.0}, {"CPU": 2.0}]),
        ([{"CPU": 4.0}] + [{"CPU": 3.0}] * 3, False, [{"CPU": 6.0}, {"CPU": 7.0}]),
        ([{"CPU": 2.0}] * 2 + [{"CPU": 3.0}] * 3 + [{"CPU": 1.0}], False, [{"CPU": 7.0}] * 2),
        ([{"CPU": 0.1}] * 1000, False, [{"CPU": 50.0}] * 2),
    ],
)
def test_a_possible_request_is_accepted(
    bundles: list[dict[str, float]], together: bool, machines: list[dict[str, float]]
) -> None:
    check_fits([total_resources(bundles)] if together else bundles, machines)


@pytest.mark.parametrize(
    ("bundles", "together", "machines", "message"),
    [
        ([{"CPU": 1.0, "GPU": 1.0}], False, [SMALL], "asks for 1 GPU and the cluster has 0: lower"),
        ([{"CPU": 1.0, "GPU": 0.5}] * 3, False, [LARGE], "for 1.5 GPU and the cluster has 1"),
        ([{"CPU": 1.0, "GPU": 1.5}], False, [{"CPU": 4.0, "GPU": 2.0}],
         "resources.gpus 1.5: Ray gives a process a fraction of a GPU, or whole GPUs: ask for 2"),
        ([{"CPU": 5.0}], False, [SMALL, SMALL], "no node of the cluster has 5 CPU for one process"),
        ([{"CPU": 3.0}] * 2, True, [SMALL, SMALL], "6 CPU for one process (with single_node"),
        ([{"CPU": 6.0, "GPU": 1.0}], False, [{"CPU": 9.0}, {"CPU": 1.0, "GPU": 1.0}],
         "has 6 CPU and 1 GPU for one process"),
        ([{"CPU": 2.0}] * 2, False, [{"CPU": 3.0}, {"CPU": 1.0}], "cannot hold all processes"),
        ([{"CPU": 4.0}] + [{"CPU": 3.0}] * 3, False, [{"CPU": 5.0}, {"CPU": 8.0}],
         "cannot hold all processes"),
        ([{"CPU": 5.0}] * 40 + [{"CPU": 3.0}] * 90, False, [{"CPU": 8.0}] * 59, "cannot hold all"),
    ],
)  # fmt: skip
def test_an_impossible_request_is_refused(
    bundles: list[dict[str, float]], together: bool, machines: list[dict[str, float]], message: str
) -> None:
    with pytest.raises(UserError) as refused:
        check_fits([total_resources(bundles)] if together else bundles, machines)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("bundles", "machines", "most", "held"),
    [
        ([{"CPU": 2.0}], [{"CPU": 3.0}] * 2, 9, 2),  # although there are three times 2 CPUs
        ([{"CPU": 2.0}], [{"CPU": 3.0}] * 2, 1, 1),
        ([{"CPU": 1.0}, {"CPU": 2.0}], [{"CPU": 3.0}, {"CPU": 4.0}, {"CPU": 2.0}], 9, 3),
        ([{"CPU": 1.0, "GPU": 0.5}, {"CPU": 3.0}], [LARGE, SMALL, SMALL], 9, 2),
        # beside a 5 fits a 2, elsewhere four of them: k + 4 (40 - k) twos for k fives
        ([{"CPU": 5.0}] + [{"CPU": 2.0}] * 2, [{"CPU": 8.0}] * 40, 200, 32),
    ],
)
def test_the_number_of_requests_that_fit(
    bundles: list[dict[str, float]], machines: list[dict[str, float]], most: int, held: int
) -> None:
    assert copies_that_fit(bundles, machines, most) == held


def test_resources_on_one_node_are_one_bundle() -> None:
    resources = {"cpus": 2.0, "gpus": 0.0, "worker_cpus": 1.0, "learners": 1, "data_readers": 1}
    job = {"workers": 2, "resources": {**resources, "single_node": True}}
    assert all_bundles(job) == [{"CPU": 4.0}, {"CPU": 1.0}]
    job["resources"] = {**resources, "single_node": False}
    assert all_bundles(job) == [{"CPU": 2.0}, {"CPU": 1.0}, {"CPU": 1.0}, {"CPU": 1.0}]


def test_an_autoscaling_cluster_counts_the_nodes_that_it_may_start() -> None:
    most = "2x8CPU,1x8CPU+1GPU,1x0.5TPU"
    small, gpu, tpu = {"CPU": 8.0}, {"CPU": 8.0, "GPU": 1.0}, {"TPU": 0.5}
    head: dict[str, float] = {"node:__internal_head__": 1.0}
    with pytest.raises(UserError, match=r"has 0: lower .* that grows, set OVERTRICK_MACHINES"):
        check_fits([small], with_autoscaler_nodes([head], ""))
    check_fits([small, small, gpu, tpu], with_autoscaler_nodes([head], most))
    # running nodes are not counted twice, and take the place of their own type
    for running_nodes in ([], [small], [gpu], [small, gpu, tpu], [{**gpu, "memory": 1e9}]):
        assert total_resources(with_autoscaler_nodes([head, *running_nodes], most))["CPU"] == 24
        assert total_resources(with_autoscaler_nodes([head, *running_nodes], most))["GPU"] == 1
    # a node of another type is added
    assert total_resources(with_autoscaler_nodes([{"CPU": 4.0}], most))["CPU"] == 28


@pytest.mark.parametrize(
    "most", ["20", "x8CPU", "2x8", "2x8CPU,", "2 of 8CPU", "2x8CPU+", "2x-1CPU", "9" * 50 + "x8CPU"]
)
def test_a_malformed_list_of_machines_is_refused(most: str) -> None:
    with pytest.raises(UserError, match="must list numbers of machines and their resources, such"):
        with_autoscaler_nodes([], most)
