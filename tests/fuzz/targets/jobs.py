"""Fuzz targets: jobs of every kind, overrides, settings of data sets, packages for a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from tests.bench.small_jobs import SMALL_JOBS
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target
from tests.fuzz.targets import shared_inputs

from overtrick.comparison import comparison_job, schedule
from overtrick.config import job_file
from overtrick.config.overrides import apply_overrides
from overtrick.datasets.bidding_examples_build import ExamplesConfig
from overtrick.datasets.bridge_deals import DealsConfig
from overtrick.datasets.card_abstraction_build import AbstractionConfig
from overtrick.datasets.minibridge_games import MinibridgeConfig
from overtrick.distributed import job_package
from overtrick.runs import lifecycle, provenance
from overtrick.storage.run_folder import RunFolder
from overtrick.sweeps import sweep
from overtrick.training.registry import JOBS

WITH_FILES = ("bidder", "selfplay_bidding", "bidding", "bidding_imps")  # jobs that need files
PUBLISHED = ("leduc_meta", "leduc_solve", "leduc_meta_ppo", "leduc_eom", "kuhn_three_rllib",
             "coevolve_kuhn", "holdem_exploit", "minibridge_q", "leduc_rllib_ppo", "holdem_meta",
             "leduc_meta_grid")  # fmt: skip
TABLE = {
    "trainer": "table",
    "game": "kuhn",
    "seeds": [0, 1],
    "evaluate": {"steps": 1, "games": 10, "repeats": 2},
    "opponents": {"random": "random", "call": "call", "nfsp": {"method": "NFSP"}},
    "methods": {
        "ours": {"job": {"trainer": "meta", "game": "kuhn"}, "set": {"meta.hidden": [8]}},
        "NFSP": {"job": {"trainer": "nfsp", "game": "kuhn"}, "without": []},
        "CFR": {"policy": "cfr"},
        "Oracle": {"oracle": "exact"},
    },
    "ours": "ours",
    "variants": ["NFSP"],
    "paper": {"ours": {"random": 1.0}},
}
SEARCHES: list[dict[str, Any]] = [
    {"seed": {"grid": [0, 1]}, "meta.hidden": {"grid": [[8], [8, 8]]}},
    {"method": "random", "trials": 3, "meta.outer_kl": {"loguniform": [0.001, 0.1]},
     "meta.games": {"randint": [2, 9]}},
    {"method": "asha", "trials": 2, "grace_period": 1, "reduction_factor": 2, "metric": "loss",
     "meta.discount": {"uniform": [0.5, 1.0]}},
    {"method": "pbt", "trials": 2, "perturbation_interval": 1, "metric": "-loss",
     "meta.discount": {"choice": [0.5, 1.0]}, "quantile_fraction": 0.5},
]  # fmt: skip
OVERRIDES = (
    ["stop.iterations=4", "meta={solver: ppo, minibatches: 1}"],
    ["game={name: leduc, fold: true}", "population.size=4"],
    ["track={uri: sqlite:///x.db, experiment: e}", "evaluate.opponents=[random, call]"],
    ["search.seed={grid: [1, 2]}", "resources.cpus=1.5"],
)


def job_file_text(content: object) -> bytes:
    """Return plain data as the text of a job file."""
    return yaml.safe_dump(content, sort_keys=False).encode()


def job_files() -> list[Files]:
    """Return a job file of every trainer."""
    small = {name: job for name, job in SMALL_JOBS.items() if name not in WITH_FILES}
    written = [job_file_text({**job, "track": {"uri": "sqlite:///m.db"}}) for job in small.values()]
    files = [(shared_inputs.JOBS / f"{name}.yaml").read_bytes() for name in PUBLISHED]
    return [{"job.yaml": each} for each in written + files]


def check_job_file(folder: Path) -> None:
    """Read, validate and check a job as `train` does, then write it as plain data."""
    job = job_file.load(folder / "job.yaml", [], JOBS)
    lifecycle.check_job(job)
    json.dumps(provenance.dotted(job.model_dump(mode="json")))


def override_lists() -> list[Files]:
    """Return lists of overrides for a job whose trainer is `meta`."""
    return [{"overrides.json": json.dumps(each).encode()} for each in OVERRIDES] + [
        {"override.txt": each.encode()} for words in OVERRIDES for each in words
    ]


def check_overrides(folder: Path) -> None:
    """Apply overrides to a small job, and validate the result."""
    if (folder / "override.txt").exists():
        words = [(folder / "override.txt").read_text(errors="surrogateescape")]
    else:
        words = command_words(folder / "overrides.json")
    content = apply_overrides(SMALL_JOBS["meta"], words)
    job = job_file.parse(content, JOBS, "job.yaml")
    json.dumps(job.model_dump(mode="json"))


def command_words(path: Path) -> list[str]:
    """Read command-line words from a JSON list; convert entries of other types to text.

    A file without a list counts as one word.
    """
    try:
        found = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return [path.read_text(errors="surrogateescape").replace("\0", "")]
    return [str(each)[:10_000] for each in found] if isinstance(found, list) else [str(found)[:999]]


def comparison_jobs() -> list[Files]:
    """Return comparison jobs that contain the jobs of their methods."""
    return [{"job.yaml": job_file_text(TABLE)}]


def check_comparison_job(folder: Path) -> None:
    """Read and check a comparison's job as `evaluate` does."""
    table = comparison_job.load(folder / "job.yaml", [])
    schedule.check(table)
    json.dumps(table.model_dump(mode="json"))


def sweep_jobs() -> list[Files]:
    """Return jobs of sweeps."""
    job = {**SMALL_JOBS["meta"], "track": {"uri": "sqlite:///m.db"}}
    return [{"job.yaml": job_file_text({**job, "search": each})} for each in SEARCHES]


def check_sweep_job(folder: Path) -> None:
    """Read and check a sweep's job as `sweep` does."""
    job = job_file.load(folder / "job.yaml", [], JOBS)
    sweep.check(job, "job.yaml")
    json.dumps(job.model_dump(mode="json"))


def stored_jobs() -> list[Files]:
    """Return the job files of runs of an earlier version."""
    return [
        {"job.json": path.read_bytes()} for path in sorted(shared_inputs.RUNS.glob("*/job.json"))
    ]


def read_stored_job(folder: Path) -> None:
    """Rename the keys that an earlier version wrote into a stored job, and validate the job."""
    job_file.load_stored(RunFolder(folder), JOBS)


DATASETS = {
    "abstraction": (AbstractionConfig, ["buckets=10", "seed=1", "flop=30"]),
    "minibridge": (MinibridgeConfig, ["games=20", "strain=trump", "lost=true", "seed=2"]),
    "deals": (DealsConfig, ["boards=3", "system_ns=precision", "dealer=rotating"]),
    "examples": (ExamplesConfig, ["outcomes=true", "kind=human", "seed=3"]),
}


def data_set_settings() -> list[Files]:
    """Return the settings of each kind of data set."""
    return [
        {"settings.json": json.dumps([name, *words]).encode()}
        for name, (_, words) in DATASETS.items()
    ]


def check_data_set_settings(folder: Path) -> None:
    """Parse the settings of a data set as `generate` does."""
    kind, *words = command_words(folder / "settings.json") or [""]
    config, _ = DATASETS.get(kind, DATASETS["deals"])
    made = config.parse(words, ["boards.pbn"]) if config is ExamplesConfig else config.parse(words)
    made.default_path()
    json.dumps(made.model_dump(mode="json"))


def cluster_tasks() -> list[Files]:
    """Return jobs for a cluster, which name local files."""
    job = {
        "trainer": "meta",
        "game": {"name": "leduc", "options": {"x": "/FOLDER/a"}},
        "y": ["/FOLDER/b"],
    }
    files = {"a/1.txt": b"1", "b": b"2"}
    return [{"job.json": json.dumps(job).encode(), "name.txt": b"leduc_meta", **files}]


def pack_task(folder: Path) -> None:
    """Write a job and its files into a folder, to be sent to a cluster."""
    try:
        text = (folder / "job.json").read_text(errors="replace").replace("/FOLDER", str(folder))
        job = json.loads(text)
        name = (folder / "name.txt").read_text(errors="replace")
    except (ValueError, OSError, RecursionError):
        return  # a job is plain data, and its file was read
    if isinstance(job, dict) and name and "/" not in name and "\0" not in name and len(name) < 99:
        task = job_package.ClusterTask("train", name, "run", job, "/shared/runs", {})
        (folder / "package").mkdir()
        job_package.pack(task, folder / "package")


TARGETS = (
    Target("job file", job_files, check_job_file, 8),
    Target("overrides", override_lists, check_overrides, 8),
    Target("comparison job", comparison_jobs, check_comparison_job, 4),
    Target("sweep job", sweep_jobs, check_sweep_job, 4),
    Target("stored job", stored_jobs, read_stored_job, 6),
    Target("data set settings", data_set_settings, check_data_set_settings, 4),
    Target("cluster package", cluster_tasks, pack_task, 3),
)
