"""Films of a model while it learns: one now and then, kept with its run and in MLflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from overtrick import games, model, trial
from overtrick.config import Job
from overtrick.core import Array, Failed, Refused
from overtrick.learners.networks import unprefixed
from overtrick.play import play
from overtrick.policies import of_network
from overtrick.track import Tracker
from overtrick.trainers import TRAINERS, strangers
from overtrick.trainers.kept import opponent_of, two_seats
from overtrick.workers import LocalCrew, Part, generator

log = logging.getLogger(__name__)

FOLDER = "films"


def check(job: Job) -> None:
    """Raise Refused, or Failed without a renderer, if a job asks for films that cannot be made."""
    if job.films.every is None:
        return
    made, tree = two_seats(job.game)
    strangers.check(job.films.against, made, tree)
    if not model.plays(TRAINERS[job.trainer].trainer(job, LocalCrew()).model()):
        raise Refused(f"films.every: {job.trainer} makes no model that plays: leave it out")
    games.film_of(made, Path("film.mp4"))


def listener(job: Job, folder: Path, number: int, tracker: Tracker) -> trial.Listener:
    """Tells the tracker of each iteration; films what the checkpoints of job `number` hold.

    The folder has the checkpoints, the tracker's the films.
    """
    shown = job.films.every or 0

    def listen(iteration: int, metrics: dict[str, float]) -> None:
        nonlocal shown
        tracker.metrics(iteration, metrics)
        if job.films.every is None or iteration < shown:
            return
        newest = trial.newest_checkpoint(folder, number)
        if newest is None:
            return
        state = trial.read_state(newest)
        if (now := int(state["iteration"])) >= shown:
            keep(job, state, tracker)
            shown = now - now % job.films.every + job.films.every

    return listen


def keep(job: Job, state: Mapping[str, Array], tracker: Tracker) -> None:
    """A film of the model in a trainer's state, as it plays before it adapts; unless there are to
    be none, or it is there already."""
    path = tracker.folder / FOLDER / f"iteration_{int(state['iteration']):05d}.mp4"
    if job.films.every is None or path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    trainer = TRAINERS[job.trainer].trainer(job, LocalCrew())
    trainer.load(state)
    made, _ = two_seats(job.game)
    learner = of_network(made.features, unprefixed("policy", trainer.model()))
    both = (learner, opponent_of(job.game, job.films.against))
    try:
        games.film_of(made, path)(play(made, both, 1, generator(job.seed, Part.JUDGE)).batch)
    except Failed as error:  # a run does not end for want of a picture
        log.warning("%s", error)
        return
    tracker.artifact(path, FOLDER)
