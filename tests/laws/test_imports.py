"""The laws of the house that can be read from its files: who may import whom, and what is kept
small. A new room needs a line in ALLOWED, below every room that it imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "platform" / "overtrick"
FILES = sorted(HOUSE.rglob("*.py"))

ALLOWED = {
    "core": (),
    "environment": (),
    "atomic": (),
    "address": ("core",),
    "versions": ("core",),
    "policies": ("core",),
    "meters": (),
    # a scripted player is a policy that knows its game
    "games": ("core", "policies", "atomic", "meters"),
    "play": ("core", "meters"),
    "solvers": ("core",),
    "doors": ("core", "policies", "games", "solvers"),  # OpenSpiel is given the exact tree
    "learners": ("core", "policies"),
    "population": ("core", "policies"),
    "bundles": ("core",),
    "workers": ("core", "meters", "bundles"),
    "spread": ("core",),
    "store": ("core", "atomic"),
    "model": ("core", "atomic", "policies", "learners"),
    "rllib": ("core", "policies", "games", "learners", "model"),
    "figures": ("core",),
    "curves": ("core", "figures"),
    "counts": ("figures",),
    "progress": ("figures",),
    "track": ("core", "atomic", "address", "versions"),
    "registry": ("core", "atomic", "address", "versions", "model", "track"),
    "search": ("core",),
    "halving": ("atomic",),
    "config": ("core", "games", "address", "versions", "registry", "search"),
    "trainers": (
        "core", "policies", "games", "play", "solvers", "learners", "population", "workers",
        "spread", "store", "model", "rllib", "figures", "curves", "counts", "config", "atomic",
        "registry",
    ),
    "answers": ("core", "policies", "games", "learners", "model", "registry", "trainers"),
    "served": ("answers",),
    "trial": (
        "core", "atomic", "halving", "config", "trainers", "workers", "spread", "bundles",
    ),
    "films": (
        "core", "policies", "games", "play", "learners", "workers", "model", "config", "trainers",
        "trial", "track",
    ),
    "provenance": (),
    "record": ("core", "games", "store"),
    "tables": ("figures",),
    "view": (
        "core", "games", "atomic", "track", "config", "trainers", "films", "record", "tables",
    ),
    "run": (
        "core", "provenance", "games", "workers", "model", "figures", "atomic", "track", "config",
        "trainers", "trial", "films", "address", "versions", "registry", "answers", "view",
    ),
    "match": (
        "core", "games", "play", "workers", "model", "registry", "config", "trainers", "record",
        "run",
    ),
    "seat": (
        "core", "policies", "games", "play", "solvers", "workers", "config", "trainers", "run",
        "match", "record",
    ),
    "parts": (
        "core", "halving", "config", "registry", "track", "trial", "films", "run", "view",
    ),
    "rounds": ("core", "atomic", "search", "halving", "config", "workers", "trial", "parts"),
    "sweep": (
        "core", "games", "figures", "curves", "search", "halving", "config", "trainers", "workers",
        "trial", "run", "parts", "rounds",
    ),
    "comparison": (
        "core", "policies", "games", "solvers", "workers", "model", "figures", "curves", "atomic",
        "config", "trainers", "trial", "films", "run", "parts", "address", "provenance", "view",
    ),
    "parcel": ("core",),
    "submit": ("core", "parcel"),
    "cli": (
        "core", "environment", "provenance", "progress", "games", "config", "trainers", "run",
        "match", "parts", "sweep", "comparison", "tables", "parcel", "submit", "figures", "counts",
        "atomic", "record", "seat", "view", "address", "track", "versions", "registry",
    ),
    "__main__": ("cli",),
    "__init__": ("games",),
}  # fmt: skip
"""Each room and the rooms that it may import."""

GENERAL = ("play", "policies", "solvers", "learners", "population")
"""Rooms that work for every game and so may know none."""

DOORS = {
    "ray": {"workers.py"},
    "ray.exceptions": {"workers.py", "submit.py"},
    "ray.util.metrics": {"meters.py"},
    "ray.tune": {"trial.py"},
    "ray.train": {"spread.py"},
    "ray.data": {"spread.py"},
    "ray.util.queue": {"spread.py"},
    "ray.rllib": {
        f"rllib/{name}.py" for name in ("environments", "modules", "plan", "memory", "algorithms")
    },
    "ray.job_submission": {"submit.py"},
    "mlflow": {"track.py", "served.py"},
    "pyarrow": {"store.py"},
    "pettingzoo": {"doors/parallel.py", "doors/turns.py"},
    "gymnasium": {
        "doors/parallel.py",
        "doors/turns.py",
        "doors/single.py",
        "rllib/environments.py",
        "rllib/modules.py",
    },
    "pyspiel": {"games/openspiel.py", "doors/openspiel.py"},
    "open_spiel": {"games/openspiel.py"},
    "endplay": {"games/bridge/double_dummy.py", "games/bridge/records.py"},
}
"""The outside world, and the files that may speak to it."""

VAGUE = {"util", "utils", "helper", "helpers", "common", "base", "misc"}
LONGEST = 300  # lines


def imported(source: str) -> list[str]:
    """Every module that a source imports, at its top, in a function, or by its name as a string.

    `from a import b` counts as a.b, whether b is a module or not.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # a dot instead of a name: nothing here imports that way, and rooms are found by name
            start = "." * node.level + (node.module or "")
            found += [f"{start}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__"):
                found += [a.value for a in node.args if isinstance(a, ast.Constant)]
    return found


def wrong_arrows(file: str, source: str) -> list[str]:
    """The imports of a file (its path in the house) that its room may not make."""
    room = file.removesuffix(".py").split("/")[0]
    wrong = []
    for name in imported(source):
        top, _, rest = name.partition(".")
        other = rest.split(".")[0]
        if top == "overtrick" and other != room and other not in ALLOWED[room]:
            wrong.append(f"{file} imports {name}")
        if not top:
            wrong.append(f"{file} imports {name}: write the whole name")
    return wrong


def wrong_doors(file: str, source: str) -> list[str]:
    """The imports of a file (its path in the house) that go round the outside world's doors."""
    wrong = []
    for name in imported(source):
        doors = [d for d in DOORS if f"{name}.".startswith(f"{d}.")]
        if doors and file not in DOORS[max(doors, key=len)]:
            wrong.append(f"{file} imports {name}")
    return wrong


def wrong_names(file: str) -> list[str]:
    """The parts of a file's path that could name anything."""
    words = file.removesuffix(".py").replace("/", "_").split("_")
    return [word for word in words if word in VAGUE]


def house():
    """Each file's path in the house and its source."""
    for path in FILES:
        yield str(path.relative_to(HOUSE)), path.read_text()


def test_general_rooms_never_import_a_game():
    for room in GENERAL:
        assert "games" not in ALLOWED[room]
    for file, source in house():
        if file.removesuffix(".py").split("/")[0] in GENERAL:
            assert not [name for name in imported(source) if "overtrick.games" in name], file


def test_arrows_point_one_way():
    assert [line for file, source in house() for line in wrong_arrows(file, source)] == []


def test_every_room_imports_only_rooms_above_it_in_the_table():
    rooms = list(ALLOWED)
    for place, room in enumerate(rooms):
        assert set(ALLOWED[room]) <= set(rooms[:place]), room


def test_the_table_names_the_rooms_that_exist():
    assert {file.removesuffix(".py").split("/")[0] for file, _ in house()} == set(ALLOWED)


def test_the_outside_world_has_one_door_each():
    assert [line for file, source in house() for line in wrong_doors(file, source)] == []


def test_every_file_is_short_enough_to_read_at_a_sitting():
    lines = {file: source.count("\n") for file, source in house()}
    assert {file: n for file, n in lines.items() if n > LONGEST} == {}


def test_every_file_is_named_for_what_is_in_it():
    assert [file for file, _ in house() if wrong_names(file)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("play.py", "import overtrick.games.poker.game"),
        ("solvers/tree.py", "def build():\n    from overtrick.games import make"),
        ("learners/ppo.py", "from overtrick import games"),
        ("population/ratings.py", "import importlib\nimportlib.import_module('overtrick.games')"),
        ("games/matrix.py", "from overtrick.play import play"),
        ("policies.py", "from overtrick.trainers.meta import MetaTrainer"),
        ("core.py", "if TYPE_CHECKING:\n    from overtrick.policies import Uniform"),
        ("trainers/meta.py", "from overtrick import trial"),
        ("learners/ppo.py", "from overtrick import make"),
        ("learners/ppo.py", "from .. import games"),
    ],
)
def test_an_arrow_that_points_the_wrong_way_is_found(file, source):
    assert len(wrong_arrows(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("trainers/meta.py", "import ray"),
        ("trial.py", "import ray"),
        ("trial.py", "from ray.exceptions import RayActorError"),
        ("workers.py", "from ray import tune"),
        ("workers.py", "import ray.tune as tune"),
        ("trial.py", "from ray.rllib import algorithms"),
        ("cli/runs.py", "def submit():\n    from ray.job_submission import JobSubmissionClient"),
        ("run.py", "import mlflow.pytorch"),
        ("play.py", "from pyarrow import parquet"),
        ("learners/track.py", "import mlflow"),
    ],
)
def test_a_way_round_a_door_is_found(file, source):
    assert len(wrong_doors(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("trial.py", "from ray import tune\nfrom ray.tune import Tuner"),
        ("workers.py", "import ray\nfrom ray.exceptions import RayTaskError"),
        ("served.py", "import mlflow"),
        ("play.py", "import rayon\nimport mlflower"),
    ],
)
def test_a_door_lets_its_own_file_through(file, source):
    assert wrong_doors(file, source) == []


def test_a_vague_name_is_found():
    assert wrong_names("games/poker/utils.py") == ["utils"]
    assert wrong_names("common/play.py") == ["common"]
    assert wrong_names("learners/ppo_helpers.py") == ["helpers"]
    assert wrong_names("games/matrix.py") == []


def test_platform_is_still_the_standard_library():
    assert not (ROOT / "platform" / "__init__.py").exists()
    asked = "import platform; print(platform.__file__, platform.system())"
    answer = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    file, _, system = answer.partition(" ")
    assert ROOT not in Path(file).parents or ".venv" in file
    assert Path(file).name == "platform.py"
    assert system.strip()


def test_the_front_door_leaves_time_to_set_the_environment():
    asked = "import overtrick, sys; print(sorted({'numpy', 'torch', 'ray'} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
