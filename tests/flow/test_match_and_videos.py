"""Matches and tournaments beside exact values, and their videos."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

import overtrick
from overtrick import cli
from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games import registry
from overtrick.games.sumo import video
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformVectorPolicy
from overtrick.runs import lifecycle, videos
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.storage.champions import champion_folder
from overtrick.storage.run_folder import RunFolder
from overtrick.studies.match import choose_game, play_match
from overtrick.training.registry import JOBS, TRAINERS
from overtrick.training.tournament import (
    PairResult,
    Tournament,
    TournamentJob,
    TournamentTrainer,
)

PLAYERS = ("random", "call", "cfr")


def exact(game_and_tree, a, b, name="leduc"):
    """Return the exact payoff of one scripted player against another, in big blinds per game."""
    game, tree = game_and_tree(name)
    ours, theirs = (
        best_response.sigma_of(tree, [make_opponent(p, game, tree)] * 2) for p in (a, b)
    )
    return exact_payoff(tree, ours, theirs)


def tournament(iterations=3, boards=400, **changes):
    plan = Tournament(players=PLAYERS, boards=boards)
    job = TournamentJob(trainer="tournament", game="leduc", tournament=plan, **changes)
    trainer = TournamentTrainer(job, LocalPool())
    for _ in range(iterations):
        metrics = trainer.step()
    return trainer, metrics


@pytest.mark.parametrize(("a", "b"), itertools.combinations(PLAYERS, 2))
def test_a_match_agrees_with_the_trees_value(game_and_tree, a, b):
    done = play_match(a, b, "leduc", {}, boards=3_000, seed=1)
    total = done.meeting
    assert done.unit == "big blind"
    assert 0.005 < total.standard_error < 0.1
    assert abs(total.mean - exact(game_and_tree, a, b)) < 4 * total.standard_error
    assert 0 < total.won + total.lost <= 6_000


def test_a_standard_error_is_that_of_independent_boards(rng):
    won = rng.normal(0.3, 2.0, 500)
    total = PairResult(500, won.sum(), np.square(won).sum(), 0, 0)
    assert total.mean == pytest.approx(won.mean())
    assert total.standard_error == pytest.approx(won.std(ddof=1) / np.sqrt(500))


def test_a_tournament_ranks_by_the_mean_payoff_against_all_players(game_and_tree):
    trainer, metrics = tournament()
    rows = {row["player"]: row for row in trainer.report([]).rows}
    assert list(rows) == sorted(rows, key=lambda name: -rows[name]["mean"])
    for name, row in rows.items():
        mean = np.mean([exact(game_and_tree, name, other) for other in PLAYERS if other != name])
        assert row["mean"] == pytest.approx(mean, abs=0.15)
        assert metrics[f"{name}/mean_big_blind"] == row["mean"]
        assert row["won from each"][list(rows).index(name)] is None
    assert sum(row["mean"] for row in rows.values()) == pytest.approx(0, abs=1e-9)
    for a, b in itertools.combinations(PLAYERS, 2):  # the other games are drawn
        shares = [rows[p]["won from each"][list(rows).index(q)] for p, q in ((a, b), (b, a))]
        assert 0.8 < sum(shares) <= 1


def test_rounds_add_up_and_resume_from_a_state():
    whole, _ = tournament(3, boards=20)
    half, _ = tournament(1, boards=20)
    early = half.state()
    half.step()
    assert (early["results"][:, 0] == 20).all()  # a returned state does not change later
    assert (half.results[:, 0] == 40).all()
    again = TournamentTrainer(whole.job, LocalPool())
    again.load(half.state())
    again.step()
    assert np.array_equal(again.results, whole.results)


def test_a_tournament_with_shaped_rewards_is_refused():
    plan = Tournament(players=("random", "motionless"))
    job = TournamentJob(trainer="tournament", game="sumo", tournament=plan)
    with pytest.raises(UserError, match="do not sum to zero: set its reward to result"):
        TournamentTrainer.validate(job)
    for reward in ("shaped", "wins"):
        with pytest.raises(UserError, match="do not sum to zero"):
            play_match("random", "motionless", "sumo", {"reward": reward}, 2, 0)
    with pytest.raises(ValueError, match="two or more players with different names"):
        Tournament(players=("random", "random"))


def test_a_match_from_the_command_line(monkeypatch, capsys, tmp_path):
    def ask(*words):
        monkeypatch.setattr(sys, "argv", ["overtrick", "match", *words, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OVERTRICK_ZOO", raising=False)
    code, answer = ask("la", "ta", "--boards", "50")  # only hold'em has both players
    assert (code, answer["game"], answer["unit"], answer["boards"]) == (
        0,
        "holdem",
        "big blind",
        50,
    )
    assert {"a", "b", "mean", "standard_error"} <= answer.keys()
    assert ask("random", "cfr") == (2, {"error": (
        "several games have random and cfr: name one with --game, such as brps"
    )})  # fmt: skip
    assert "no game has both la and motionless" in ask("la", "motionless")[1]["error"]
    assert (
        "kuhn_three is not a two-seat game"
        in (ask("random", "call", "--game", "kuhn_three")[1]["error"])
    )
    assert "needs AgentZoo's parameter files" in (ask("zoo:mlp1", "motionless", "zoo=")[1]["error"])
    assert (
        "leduc has no video"
        in (ask("random", "cfr", "--game", "leduc", "--video", "a.mp4")[1]["error"])
    )


def test_a_stored_model_plays_a_scripted_player(tmp_path, game_and_tree):
    game, tree = game_and_tree("kuhn")
    sigma = best_response.sigma_of(tree, [make_opponent("cfr", game, tree)] * 2)
    model_files.save(model_files.Model({"sigma": sigma}, "kuhn", {}), tmp_path / "mine")
    done = play_match(str(tmp_path / "mine"), "random", None, {}, boards=2_000, seed=0)
    assert done.game == "kuhn"
    total = done.meeting
    assert (
        abs(total.mean - exact(game_and_tree, "cfr", "random", "kuhn")) < 4 * total.standard_error
    )


def test_a_match_keeps_the_view_of_a_model_but_not_what_matters_only_in_training():
    """The champion of sumo learnt with Euler and shaping rewards; matches are RoboSumo's."""
    trained = model_files.load(champion_folder("champion:sumo")).game_options
    assert (trained["integrator"], trained["view"]) == ("euler", "ahead_left")
    options = choose_game("champion:sumo", "pusher", None, {}).options
    assert (options["reward"], options["view"]) == ("result", "ahead_left")
    assert overtrick.make("sumo", **options).portable_options()["integrator"] == "rk4"
    assert choose_game("pusher", "champion:sumo", None, {"integrator": "euler"}).options == {
        **options, "integrator": "euler",
    }  # fmt: skip


@pytest.fixture(scope="module")
def short_match():
    """Play a short match between random ants."""
    game = overtrick.make("sumo")
    return play(game, [UniformVectorPolicy(8)] * 2, 3, np.random.default_rng(3)).batch


@pytest.fixture(scope="module")
def drawn():
    """Skip the test if MuJoCo cannot render here, tried without the package's own search."""
    probe = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8)"
    plain = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    for renderer in ("egl", "osmesa"):
        environment = {**plain, "MUJOCO_GL": renderer}
        command = [sys.executable, "-c", probe]
        tried = subprocess.run(command, env=environment, capture_output=True, check=False)
        if tried.returncode == 0:
            return
    pytest.skip("MuJoCo draws neither by EGL nor by OSMesa: install libegl1 or libosmesa6")


def test_videos_are_scheduled_before_a_model_exists(monkeypatch):
    """RLlib has no model before it runs."""
    monkeypatch.setattr(videos.registry, "video_writer", lambda game, path: None)
    job = job_file.load(Path(__file__).parents[2] / "jobs" / "sumo_rllib_sac.yaml", [], JOBS)
    assert job.videos.every
    videos.check_videos(job)


@pytest.mark.slow
def test_a_video_has_one_frame_per_step(short_match, tmp_path, drawn):
    path = tmp_path / "match.mp4"
    registry.video_writer(overtrick.make("sumo"), path)(short_match)
    steps = int(((short_match.game == 0) & (short_match.seat == 0)).sum())
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == steps
    assert seconds == pytest.approx(steps / 20, abs=0.1)
    assert [p.name for p in tmp_path.iterdir()] == ["match.mp4"]


@pytest.mark.parametrize("view", ["world", "ahead", "ahead_left"])
def test_recorded_positions_are_those_of_the_simulation(view):
    """Also in views that rotate or reflect each ant's observation."""
    game = overtrick.make("sumo", integrator="euler", view=view)
    batch = play(game, [UniformVectorPolicy(8)] * 2, 3, np.random.default_rng(3)).batch
    deals = game.deal(3, np.random.default_rng(3).spawn(3)[0])
    first = video.recorded_positions(batch)[0]
    assert first == pytest.approx(game.start(deals).position[0])


def test_a_match_with_a_video_has_one_more_game_with_the_first_player_in_seat_0(
    tmp_path, monkeypatch
):
    drawn_batches = []
    monkeypatch.setattr(registry, "video_writer", lambda game, path: drawn_batches.append)
    options = {"integrator": "euler"}
    total = play_match(
        "random", "motionless", "sumo", options, 2, 0, tmp_path / "match.mp4"
    ).meeting
    (batch,) = drawn_batches
    assert (batch.games, total.boards) == (1, 2)
    random, motionless = (batch.action[batch.seat == seat] for seat in (0, 1))
    assert len(random) == len(motionless) == len(video.recorded_positions(batch))
    assert random.any()
    assert not motionless.any()


def test_a_machine_that_cannot_render_gives_one_error_line(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "RENDERERS", ("nothing",))
    sumo = overtrick.make("sumo")
    with pytest.raises(
        RunError, match="no video: MuJoCo can draw neither by EGL nor by OSMesa here"
    ):
        registry.video_writer(sumo, tmp_path / "match.mp4")
    with pytest.raises(UserError, match=r"name a .mp4 file in a folder that exists"):
        registry.video_writer(sumo, tmp_path / "match.avi")
    assert not list(tmp_path.iterdir())


PUSHING = {
    "trainer": "exploit", "game": {"name": "sumo", "integrator": "euler"},
    "stop": {"iterations": 3}, "checkpoints": {"every": 1},
    "exploit": {"games": 4, "hidden": [4], "eval_deals": 2, "eval_interval": 3},
    "videos": {"every": 2},
}  # fmt: skip


@pytest.mark.slow
def test_a_run_stores_a_video_of_its_model(tmp_path, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    job = job_file.parse(PUSHING, JOBS, "a test")
    folder = lifecycle.open_folder(job, "push")
    lifecycle.check_job(job)
    lifecycle.train(folder, lambda iteration, metrics: None)
    lifecycle.train(
        folder, lambda iteration, metrics: None
    )  # as if it had been killed while it stored the video
    artifacts = {p.name: p for p in (tmp_path / "mlartifacts").rglob("films/*")}
    assert set(artifacts) == {p.name for p in folder.videos.iterdir()} >= {"iteration_00003.mp4"}
    assert all(imageio_ffmpeg.count_frames_and_secs(str(video))[0] for video in artifacts.values())


class RecordingTracker:
    """Tracker that records metrics and artifacts, of a run that resumes after `reported`
    iterations."""

    def __init__(self, folder, reported):
        self.folder, self.reported, self.videos = folder, reported, []

    def metrics(self, step, values):
        self.reported = step

    def artifact(self, path, place):
        self.videos.append(path.name)


@pytest.mark.parametrize("killed", [0, 2, 3, 4, 5])
def test_a_video_shows_the_first_checkpoint_after_each_interval(tmp_path, monkeypatch, killed):
    """Also if the run was killed. Videos are due every 3 iterations and checkpoints every 2."""
    job = job_file.parse({**PUSHING, "videos": {"every": 3}}, JOBS, "a test")
    state = TRAINERS["exploit"].trainer(job, LocalPool()).state()
    monkeypatch.setattr(
        videos.registry, "video_writer", lambda game, path: lambda batch: path.touch()
    )
    tracker, earlier = RecordingTracker(tmp_path, 0), []
    listen = videos.listener(job, RunFolder(tmp_path).checkpoints(), tracker)
    for iteration in range(1, 9):
        if iteration % 2 == 0:
            place = tmp_path / "tune-0" / "trial-0" / f"checkpoint_{iteration:06d}"
            place.mkdir(parents=True)
            save_file({**state, "iteration": np.array(iteration)}, place / "state.safetensors")
        listen(iteration, {})
        if iteration == killed:
            earlier, tracker = tracker.videos, RecordingTracker(tmp_path, iteration)
            listen = videos.listener(job, RunFolder(tmp_path).checkpoints(), tracker)
    assert [*earlier, *tracker.videos] == ["iteration_00004.mp4", "iteration_00006.mp4"]


TWO = {"players": ["random", "motionless"]}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"game": "leduc"}, "videos: leduc has no video"),
        (
            {"videos": {"every": 1, "opponent": "nobody"}},
            "videos: unknown opponent 'nobody' in sumo",
        ),
        (
            {"videos": {"opponent": "motionless"}},
            "videos.opponent has no effect without videos.every",
        ),
        (
            {
                "trainer": "tournament",
                "exploit": None,
                "tournament": TWO,
                "game": {"name": "sumo", "reward": "result"},
            },
            "videos.every: tournament makes no model that plays",
        ),
    ],
)
def test_impossible_videos_are_refused(changed, line):
    content = {key: value for key, value in (PUSHING | changed).items() if value is not None}
    with pytest.raises(UserError, match=line):
        lifecycle.check_job(job_file.parse(content, JOBS, "a test"))


def test_a_tournament_runs_as_a_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    job = {
        "trainer": "tournament", "game": {"name": "sumo", "reward": "result"},
        "stop": {"iterations": 1},
        "tournament": {"players": ["random", "motionless"], "boards": 2},
    }  # fmt: skip
    (tmp_path / "sumo.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.setattr(sys, "argv", ["overtrick", "train", "sumo.yaml", "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["metrics"]["motionless/mean_win"] == 1
    rows, game, unit = lifecycle.evaluate_stored(answer["run"], 0)
    assert (game, unit) == ("sumo", "win")
    assert rows[0]["won from each"] == [None, 1]
