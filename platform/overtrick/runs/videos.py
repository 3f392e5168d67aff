"""Make videos of a model during training, and store them in the run's folder and in MLflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from overtrick.config.job_file import Job
from overtrick.core import Array, RunError, UserError
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import LocalPool, RngStream, generator
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play
from overtrick.runs.listener import Listener
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder, TrialCheckpoints
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import TRAINERS, restored_trainer

log = logging.getLogger(__name__)


def check_videos(job: Job) -> None:
    """Raise an error if the job asks for videos and they cannot be made.

    Raises UserError for unsuitable settings, RunError if the renderer is not installed.
    """
    if job.videos.every is None:
        return
    made, tree = two_seat_game(job.game)
    try:
        registry.check_has_video(made)
        reference_opponents.check_opponent(job.videos.opponent, made, tree)
    except UserError as error:
        raise UserError(f"videos: {error}") from None
    first = TRAINERS[job.trainer].trainer(job, LocalPool()).model()
    if first and not model_files.plays(first):  # RLlib has no weights before it runs
        raise UserError(f"videos.every: {job.trainer} makes no model that plays: leave it out")
    registry.video_writer(made, Path("film.mp4"))  # raises RunError without a renderer


def listener(job: Job, checkpoints: TrialCheckpoints, tracker: Tracker) -> Listener:
    """Return a listener that makes a video every `videos.every` iterations.

    Each video shows the model of the newest checkpoint. Without `videos.every` no videos are made.
    """
    every = job.videos.every
    due = 0 if every is None else (checkpoints.iteration() // every + 1) * every

    def listen(iteration: int, metrics: dict[str, float]) -> None:
        nonlocal due
        if every is None or iteration < due:
            return
        done = checkpoints.iteration()
        if done >= due:
            save_video(job, checkpoints.state(), tracker)
            due = (done // every + 1) * every

    return listen


def save_video(job: Job, state: Mapping[str, Array], tracker: Tracker) -> None:
    """Write a video of one game played by the model in a trainer's state, before any adaptation.

    The opponent is `videos.opponent`. Does nothing if the job asks for no videos. If the rendering
    fails, a warning is logged.
    """
    if job.videos.every is None:
        return
    folder = RunFolder(tracker.folder).videos
    path = folder / f"iteration_{int(state['iteration']):05d}.mp4"
    if path.exists():  # an earlier process was killed before it reported the video
        tracker.artifact(path, folder.name)
        return
    folder.mkdir(exist_ok=True)
    trainer = restored_trainer(job, state)
    made, _ = two_seat_game(job.game)
    learner = network_policy(made.features, unprefixed("policy", trainer.model()))
    players = (learner, cached_opponent(job.game, job.videos.opponent))
    rng = generator(job.seed, RngStream.EVALUATE)
    try:
        registry.video_writer(made, path)(play(made, players, 1, rng).batch)
    except RunError as error:  # training goes on without the video
        log.warning("%s", error)
        return
    tracker.artifact(path, folder.name)
