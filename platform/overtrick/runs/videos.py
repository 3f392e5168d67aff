"""Films of a model while it learns: one now and then, kept with its run and in MLflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from overtrick.config.job_file import Job
from overtrick.core import Array, RunError, UserError
from overtrick.distributed.workers import LocalPool, RngStream, generator
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.learners.state_keys import unprefixed
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play
from overtrick.runs import tune_trial
from overtrick.storage import model_files
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import TRAINERS

log = logging.getLogger(__name__)

FOLDER = "films"


def check(job: Job) -> None:
    """Raise UserError, or RunError without a renderer, for a job whose videos cannot be made."""
    if job.videos.every is None:
        return
    made, tree = two_seat_game(job.game)
    try:
        registry.check_has_video(made)
        reference_opponents.check_opponent(job.videos.opponent, made, tree)
    except UserError as error:
        raise UserError(f"videos: {error}") from None
    first = TRAINERS[job.trainer].trainer(job, LocalPool()).model()
    if first and not model_files.plays(first):  # RLlib has none before it runs
        raise UserError(f"videos.every: {job.trainer} makes no model that plays: leave it out")
    registry.video_writer(made, Path("film.mp4"))  # is there something to draw with?


def listener(job: Job, folder: Path, number: int, tracker: Tracker) -> tune_trial.Listener:
    """Tells the tracker of each iteration, and now and then films the newest checkpoint of job
    `number` in the folder."""
    every = job.videos.every
    due = 0 if every is None else _next(every, _newest(folder, number))

    def listen(iteration: int, metrics: dict[str, float]) -> None:
        nonlocal due
        tracker.metrics(iteration, metrics)
        if every is None or iteration < due:
            return
        state = _newest(folder, number)
        if state is not None and state["iteration"] >= due:
            keep(job, state, tracker)
            due = _next(every, state)

    return listen


def _newest(folder: Path, number: int) -> Mapping[str, Array] | None:
    """The state in the newest checkpoint of a job, if there is one."""
    newest = tune_trial.newest_checkpoint(folder, number)
    return None if newest is None else tune_trial.read_state(newest)


def _next(every: int, state: Mapping[str, Array] | None) -> int:
    """The iteration from which on there is to be another film."""
    done = 0 if state is None else int(state["iteration"])
    return (done // every + 1) * every


def keep(job: Job, state: Mapping[str, Array], tracker: Tracker) -> None:
    """A film of the model in a trainer's state, as it plays before it adapts; unless there are to
    be none. It lies with what the tracker keeps."""
    if job.videos.every is None:
        return
    path = tracker.folder / FOLDER / f"iteration_{int(state['iteration']):05d}.mp4"
    if path.exists():  # a kill may have come before the tracker was told
        tracker.artifact(path, FOLDER)
        return
    path.parent.mkdir(exist_ok=True)
    trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    trainer.load(state)
    made, _ = two_seat_game(job.game)
    learner = network_policy(made.features, unprefixed("policy", trainer.model()))
    both = (learner, cached_opponent(job.game, job.videos.opponent))
    try:
        registry.video_writer(made, path)(
            play(made, both, 1, generator(job.seed, RngStream.JUDGE)).batch
        )
    except RunError as error:  # a run does not end for want of a picture
        log.warning("%s", error)
        return
    tracker.artifact(path, FOLDER)
