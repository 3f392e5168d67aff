"""Laws of the source files: the direction of imports, the doors to outside systems, and names. A
new folder needs a place in FOLDERS after every folder that it imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.by_folder import files_by_folder

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "platform" / "overtrick"
FILES = sorted(PACKAGE.rglob("*.py"))

FOLDERS = (
    "core", "startup", "policies", "games", "solvers", "learners", "population", "environments",
    "tracking", "storage", "rllib", "reports", "config", "distributed", "evaluation", "serving",
    "datasets", "training", "runs", "sweeps", "studies", "comparison", "interactive", "cli",
    "answers", "__main__", "testing", "api", "__init__",
)  # fmt: skip
"""Folders and files at the top of the package. Each may import only those before it."""

GENERAL = ("policies", "solvers", "learners", "population")
"""Folders that serve every game and so may import none."""

DOORS = {
    "ray": {"distributed/workers.py", "distributed/local_ray.py", "core/lazy_modules.py"},
    "ray.exceptions": {"distributed/workers.py", "distributed/job_client.py"},
    "ray.util.metrics": {"core/ray_metrics.py"},
    "ray.tune": {"runs/tune_trial.py"},
    "ray.train": {"distributed/data_parallel.py"},
    "ray.data": {"distributed/data_parallel.py"},
    "ray.util.queue": {"distributed/data_parallel.py"},
    "ray.rllib": {
        f"rllib/{name}.py"
        for name in (
            "multi_agent_env",
            "rl_modules",
            "algorithm_config",
            "replay_buffer",
            "algorithm_runner",
        )
    },
    "ray.job_submission": {"distributed/job_client.py"},
    "optuna": {"sweeps/optuna_search.py"},
    "mlflow": {
        "tracking/mlflow_tracker.py",
        "tracking/event_delivery.py",
        "serving/pyfunc_model.py",
    },
    "pyarrow": {"storage/parquet.py", "storage/bucket_filesystem.py"},
    "obstore": {"storage/object_store.py"},
    "opentelemetry": {"core/tracing.py"},
    "pettingzoo": {"environments/pettingzoo_parallel.py", "environments/pettingzoo_aec.py"},
    "gymnasium": {
        "environments/pettingzoo_parallel.py",
        "environments/pettingzoo_aec.py",
        "environments/gymnasium_env.py",
        "environments/vector_env.py",
        "environments/registration.py",
        "environments/seat_agents.py",
        "rllib/multi_agent_env.py",
        "rllib/rl_modules.py",
    },
    "pyspiel": {
        "games/openspiel_tree.py",
        "games/openspiel_random_play.py",
        "environments/openspiel_game.py",
        "environments/openspiel_registration.py",
        "evaluation/board/roshambo_bots.py",
    },
    "open_spiel": {"games/openspiel_tree.py", "games/openspiel_random_play.py"},
    "endplay": {"games/bridge/double_dummy.py"},
}
"""Outside systems, and the files that may import them."""

VAGUE = {"util", "utils", "helper", "helpers", "common", "misc"}


def imported(source: str) -> list[str]:
    """Return every module that a source imports, at its top, in a function, or by its name as a
    string.

    `from a import b` counts as a.b, whether b is a module or not. A lazy module counts as the
    module itself.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # relative imports are not used: folders are found by name
            start = "." * node.level + (node.module or "")
            lazy = node.module == "overtrick.core.lazy_modules"
            found += [alias.name if lazy else f"{start}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__"):
                found += [a.value for a in node.args if isinstance(a, ast.Constant)]
    return found


def folder_of(file: str) -> str:
    """Return the folder or file at the top of the package that a file belongs to."""
    return file.removesuffix(".py").split("/")[0]


def forbidden_imports(file: str, source: str) -> list[str]:
    """List the imports of a file (its path in the package) that its folder may not make."""
    folder = folder_of(file)
    before = FOLDERS[: FOLDERS.index(folder)]
    wrong = []
    for name in imported(source):
        top, _, rest = name.partition(".")
        other = rest.split(".")[0]
        if top == "overtrick" and other != folder and other not in before:
            wrong.append(f"{file} imports {name}")
        if not top:
            wrong.append(f"{file} imports {name}: write the whole name")
    return wrong


def bypassed_doors(file: str, source: str) -> list[str]:
    """List the imports of outside systems by a file (its path in the package) that may not make
    them."""
    wrong = []
    for name in imported(source):
        doors = [d for d in DOORS if f"{name}.".startswith(f"{d}.")]
        if doors and file not in DOORS[max(doors, key=len)]:
            wrong.append(f"{file} imports {name}")
    return wrong


def vague_names(file: str) -> list[str]:
    """List the words of a file's path that could name anything."""
    words = file.removesuffix(".py").replace("/", "_").split("_")
    return [word for word in words if word in VAGUE]


def source_files():
    """Yield the path of each file in the package, and its source."""
    for path in FILES:
        yield str(path.relative_to(PACKAGE)), path.read_text()


def test_general_folders_never_import_a_game():
    for file, source in source_files():
        if folder_of(file) in GENERAL:
            assert not [name for name in imported(source) if "overtrick.games" in name], file


def test_imports_point_one_way():
    assert [
        line for file, source in source_files() for line in forbidden_imports(file, source)
    ] == []


def test_the_list_of_folders_is_complete():
    assert {folder_of(file) for file, _ in source_files()} == set(FOLDERS)


def test_the_top_of_the_package_stays_small():
    folders = [folder for folder in FOLDERS if (PACKAGE / folder).is_dir()]
    assert len(folders) <= 24
    arrows = {
        (folder_of(file), name.split(".")[1])
        for file, source in source_files()
        for name in imported(source)
        if name.startswith("overtrick.")
    }
    assert len({(a, b) for a, b in arrows if a in folders and a != b and b in FOLDERS}) <= 134


def test_outside_systems_have_one_door_each():
    assert [line for file, source in source_files() for line in bypassed_doors(file, source)] == []


def test_no_file_has_a_vague_name():
    assert [file for file, _ in source_files() if vague_names(file)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("policies/rollout.py", "import overtrick.games.poker.game"),
        ("solvers/cfr.py", "def build():\n    from overtrick.training import registry"),
        ("learners/ppo.py", "from overtrick import training"),
        ("population/ratings.py", "import importlib\nimportlib.import_module('overtrick.runs')"),
        ("games/matrix.py", "from overtrick.solvers.cfr import solve"),
        ("core/games.py", "if TYPE_CHECKING:\n    from overtrick.policies import Uniform"),
        ("training/exploit.py", "from overtrick.runs import tune_trial"),
        ("learners/dqn.py", "from overtrick import make"),
        ("learners/dqn.py", "from .. import games"),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(file, source):
    assert len(forbidden_imports(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("training/exploit.py", "import ray"),
        ("training/exploit.py", "from overtrick.core.lazy_modules import ray, torch"),
        ("runs/tune_trial.py", "import ray"),
        ("runs/tune_trial.py", "from ray.exceptions import RayActorError"),
        ("distributed/workers.py", "from ray import tune"),
        ("distributed/workers.py", "import ray.tune as tune"),
        ("runs/tune_trial.py", "from ray.rllib import algorithms"),
        ("cli/runs.py", "def submit():\n    from ray.job_submission import JobSubmissionClient"),
        ("runs/lifecycle.py", "import mlflow.pytorch"),
        ("policies/rollout.py", "from pyarrow import parquet"),
        ("learners/metrics.py", "import mlflow"),
    ],
)
def test_a_bypassed_door_is_found(file, source):
    assert len(bypassed_doors(file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("runs/tune_trial.py", "from ray import tune\nfrom ray.tune import Tuner"),
        ("distributed/workers.py", "import ray\nfrom ray.exceptions import RayTaskError"),
        ("serving/pyfunc_model.py", "import mlflow"),
        ("policies/rollout.py", "import rayon\nimport mlflower"),
    ],
)
def test_the_file_of_a_door_may_use_it(file, source):
    assert bypassed_doors(file, source) == []


def test_a_vague_name_is_found():
    assert vague_names("games/poker/utils.py") == ["utils"]
    assert vague_names("common/rollout.py") == ["common"]
    assert vague_names("learners/ppo_helpers.py") == ["helpers"]
    assert vague_names("games/matrix.py") == []


def test_the_table_of_tests_names_every_folder_and_every_test_file():
    table = files_by_folder()
    assert set(table) == {folder for folder in FOLDERS if (PACKAGE / folder).is_dir()}
    test_files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")}
    assert {name for names in table.values() for name in names} == test_files


def test_platform_is_the_standard_library_module():
    assert not (ROOT / "platform" / "__init__.py").exists()
    script = "import platform; print(platform.__file__, platform.system())"
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    file, _, system = answer.partition(" ")
    assert ROOT not in Path(file).parents or ".venv" in file
    assert Path(file).name == "platform.py"
    assert system.strip()


@pytest.mark.parametrize(
    ("modules", "late"),
    [
        ("overtrick", "numpy torch ray"),
        (
            "overtrick.training.registry, overtrick.studies.exact_solutions, "
            "overtrick.evaluation.reference_opponents, overtrick.cli, overtrick.api",
            "torch ray mujoco mlflow pandas sklearn scipy.special scipy.sparse",
        ),
        (
            "overtrick.comparison.runner",
            "torch mlflow matplotlib scipy.stats scipy.optimize cma endplay",
        ),
    ],
)
def test_slow_libraries_are_imported_at_first_use(modules, late):
    """Every command and every process of a run imports all trainers."""
    script = f"import {modules}, sys; print(sorted({set(late.split())} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
