"""Registry of all trainers by name; importing it imports every module of `training`.

Another package adds trainers by an entry point in the group `overtrick.trainers` that names its
module; importing the module must register the trainers.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from overtrick import training
from overtrick.config.job_file import Job
from overtrick.core.plugins import load_plugins
from overtrick.training.base_trainer import REGISTERED, TrainerSpec

for _module in walk_packages(training.__path__, f"{training.__name__}."):
    import_module(_module.name)
load_plugins("overtrick.trainers")

TRAINERS: dict[str, TrainerSpec] = dict(sorted(REGISTERED.items()))
JOBS: dict[str, type[Job]] = {name: spec.job for name, spec in TRAINERS.items()}
