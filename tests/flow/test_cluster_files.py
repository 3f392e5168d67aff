"""Validate the files of clusters and containers by the schemas of the programs that read them."""

from __future__ import annotations

import configparser
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from data import DATA, needed
from ray.autoscaler._private.util import prepare_config, validate_config

from overtrick.distributed.placement import with_autoscaler_nodes
from overtrick.startup import MALLOC_THRESHOLDS, THREADS

ROOT = Path(__file__).parents[2]
CLUSTER, DOCKER = ROOT / "cluster", ROOT / "docker"
COMPOSE, METERS = DOCKER / "compose.yaml", DOCKER / "meters.yaml"
KUBERAY = sorted((CLUSTER / "kuberay").glob("ray*.yaml"))


def read(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.CSafeLoader)


@functools.cache
def kuberay_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a resource, with unknown keys as errors."""
    resource = read(needed(DATA / "kuberay" / f"ray.io_{kind.lower()}s.yaml"))
    (version,) = (v for v in resource["spec"]["versions"] if v["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    # keys that every resource has are not in the file's own schema
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return schema


def validate(resource: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(resource)


def strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found["additionalProperties"] = False
    return found


@pytest.mark.parametrize("name", ["onpremise", "aws"])
def test_ray_up_accepts_its_files(name: str) -> None:
    config = read(CLUSTER / f"{name}.yaml")
    whole = prepare_config(json.loads(json.dumps(config)))
    validate_config(whole)
    assert whole["max_workers"] == config["max_workers"]
    for command in (*whole["head_start_ray_commands"], *whole["worker_start_ray_commands"]):
        assert "--dashboard-host=0" not in command
    with pytest.raises(jsonschema.ValidationError):
        validate_config(whole | {"max_worker": 3})


def test_a_small_autoscaling_cluster_accepts_large_jobs() -> None:
    """OVERTRICK_MACHINES of its head equals the limits of its file."""
    aws = read(CLUSTER / "aws.yaml")
    (stated,) = re.findall(r"OVERTRICK_MACHINES=(\S+)", " ".join(aws["docker"]["run_options"]))
    kinds = [each for each in aws["available_node_types"].values() if "max_workers" in each]
    most = [kind["resources"] for kind in kinds for _ in range(kind["max_workers"])]
    assert sorted(map(str, with_autoscaler_nodes([], stated))) == sorted(
        str(amounts(each)) for each in most
    )
    assert len(most) == aws["max_workers"]

    spec = read(CLUSTER / "kuberay" / "raycluster.yaml")["spec"]
    (head,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
    (stated,) = (each["value"] for each in head["env"] if each["name"] == "OVERTRICK_MACHINES")
    most = []
    for group in spec["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        limits = {"CPU": container["resources"]["limits"]["cpu"]}
        if gpus := container["resources"]["limits"].get("nvidia.com/gpu"):
            limits["GPU"] = gpus
        most += [limits] * group["maxReplicas"]
    assert sorted(map(str, with_autoscaler_nodes([], stated))) == sorted(
        str(amounts(each)) for each in most
    )


def amounts(held: dict[str, Any]) -> dict[str, float]:
    return {kind: float(amount) for kind, amount in held.items()}


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.stem)
def test_kuberay_knows_every_key(path: Path) -> None:
    resource = read(path)
    schema = kuberay_schema(resource["kind"])
    validate(resource, schema)
    spec = resource["spec"].get("rayClusterSpec", resource["spec"])
    assert spec["rayVersion"] == ray.__version__
    assert spec["authOptions"] == {"mode": "token"}
    spec["headGroupSpec"]["templates"] = spec["headGroupSpec"].pop("template")
    with pytest.raises(jsonschema.ValidationError):
        validate(resource, schema)


def test_pods_of_mlflow_are_valid() -> None:
    groups = kuberay_schema("RayCluster")["properties"]["spec"]["properties"]["headGroupSpec"]
    pod = groups["properties"]["template"]["properties"]["spec"]
    whole = list(yaml.safe_load_all((CLUSTER / "kuberay" / "mlflow.yaml").read_text()))
    with_pods = [each for each in whole if "template" in each["spec"]]
    assert {each["kind"] for each in with_pods} == {"Deployment", "StatefulSet"}
    for each in with_pods:
        validate(each["spec"]["template"]["spec"], pod)
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels
        (service,) = (
            s for s in whole if s["kind"] == "Service" and s["spec"]["selector"] == labels
        )
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert container["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"]
    claims = {each["metadata"]["name"] for each in whole if each["kind"] == "PersistentVolumeClaim"}
    for path in KUBERAY:
        assert f"claimName: {next(iter(claims))}" in path.read_text()


def test_compose_accepts_its_files() -> None:
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [sys.executable, *command, str(COMPOSE), str(METERS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_compose_publishes_ports_on_loopback_only_and_contains_no_secret() -> None:
    compose, meters = read(COMPOSE), read(METERS)
    for service in (*compose["services"].values(), *meters["services"].values()):
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    lines = (DOCKER / "example.env").read_text().splitlines()
    wanted = {line.removesuffix("=") for line in lines if not line.startswith("#")}
    required, more = (set(re.findall(r"\$\{(\w+):\?", f.read_text())) for f in (COMPOSE, METERS))
    assert required | more == wanted
    assert more - required == {"GRAFANA_PASSWORD"}  # only Grafana needs it
    auth = configparser.ConfigParser(interpolation=None)
    auth.read_string(compose["configs"]["mlflow-auth"]["content"])
    assert "admin_password" not in auth["mlflow"]


def test_files_that_the_image_copies_are_not_ignored() -> None:
    let = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = [
        line.split()[1:-1]
        for line in (DOCKER / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY")
    ]
    assert {name for names in copied for name in names} == let
    assert all((ROOT / name).exists() for name in let)
    named = {s.get("build", {}).get("target") for s in read(COMPOSE)["services"].values()} - {None}
    for target in named:
        assert f" AS {target}\n" in (DOCKER / "Dockerfile").read_text()


def test_processes_in_the_image_start_with_the_settings_of_startup() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for name, value in dict.fromkeys(THREADS, 1).items() | MALLOC_THRESHOLDS.items():
        assert re.search(rf"\b{name}={value}\b", text)


def test_memory_that_a_shard_frees_is_reused_by_the_next() -> None:
    shards = "import resource, numpy as np\n"
    shards += "for _ in range(20): [np.ones(1 << 17) for _ in range(8)]\n"
    shards += "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"

    def faults(more: dict[str, str]) -> int:
        required = [sys.executable, "-c", shards]
        bare = {k: v for k, v in os.environ.items() if k not in MALLOC_THRESHOLDS}
        return int(subprocess.check_output(required, env=bare | more))

    with_kept = faults({name: str(size) for name, size in MALLOC_THRESHOLDS.items()})
    assert with_kept < faults({}) - 1_000


@pytest.mark.parametrize("path", sorted(CLUSTER.rglob("*.y*ml")), ids=lambda path: path.stem)
def test_named_job_files_exist(path: Path) -> None:
    for word in path.read_text().replace("/overtrick/jobs/", "jobs/").split():
        if word.startswith("jobs/"):
            assert (ROOT / word).exists(), word
