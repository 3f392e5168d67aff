"""Registry of all trainers by name; importing it imports every module of `training`.

Another package adds trainers by an entry point in the group `overtrick.trainers` that names its
module; importing the module must register the trainers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from overtrick import training
from overtrick.config.job_file import Job
from overtrick.core import Array, Trainer
from overtrick.core.checkpoints import load_state
from overtrick.core.plugins import load_plugins
from overtrick.distributed.workers import LocalPool
from overtrick.training.base_trainer import REGISTERED, TrainerSpec
from overtrick.training.held_out_trainer import HeldOutTrainer

for _module in walk_packages(training.__path__, f"{training.__name__}."):
    import_module(_module.name)
load_plugins("overtrick.trainers")

TRAINERS: dict[str, TrainerSpec] = dict(sorted(REGISTERED.items()))
JOBS: dict[str, type[Job]] = {name: spec.job for name, spec in TRAINERS.items()}


def adapts(name: str) -> bool:
    """Return whether the models of a trainer, given by its name, adapt to an opponent."""
    trainer: Any = TRAINERS[name].trainer
    return issubclass(trainer, HeldOutTrainer) and trainer.adapts()


def restored_trainer(job: Job, state: Mapping[str, Array]) -> Trainer:
    """Return the trainer of a job in the state of a checkpoint; it plays games in this process.

    Raises UserError if the state is not one of this trainer.
    """
    trainer: Trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    load_state(trainer, state)
    return trainer
