"""Bidding networks: from boards to examples, and from a trained bidder to a match."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray import cloudpickle
from safetensors.numpy import save_file
from tests.bidding_files import write_boards
from tests.rounding import assert_float32_close

from overtrick import cli
from overtrick.config import job_file
from overtrick.core import RunError, UserError
from overtrick.datasets import bidding_examples, bidding_examples_build, board_files, chunked_build
from overtrick.datasets.bidding_examples_build import ExamplesConfig
from overtrick.datasets.bridge_deals import deal_boards
from overtrick.distributed.workers import LocalPool, WorkerPool, room_for, start_ray
from overtrick.evaluation import bidders, bidding_accuracy
from overtrick.games.bridge import auction_rules, contract_results
from overtrick.games.bridge.auction import features, network_bidder
from overtrick.games.bridge.auction.packed_features import unpack
from overtrick.games.bridge.cardplay.played_tables import play_every_contract
from overtrick.games.bridge.cards import card_holders
from overtrick.games.bridge.formats.zhang_tsv import format_trick_table
from overtrick.games.bridge.par import par
from overtrick.games.bridge.scoring import imps
from overtrick.games.bridge.system import loader
from overtrick.runs import tune_trial
from overtrick.storage import model_files, parquet, run_folder
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import SPEED
from overtrick.training import registry
from overtrick.training.bidding import supervised

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BOARDS = 400


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write boards that natural bids, with random tricks."""
    path = tmp_path_factory.mktemp("boards") / "boards.parquet"
    write_boards(path, BOARDS, seed=8, row_group_size=100)
    return path


@pytest.fixture(scope="module")
def folder(boards: Path) -> str:
    """Generate examples of the boards."""
    plan = ExamplesConfig.parse(
        ["outcomes=true", "system_ns=natural", "system_ew=natural"], [boards]
    )
    out = boards.parent / "examples"
    made = chunked_build.generate(plan, out, LocalPool(), silent)
    assert made["left_out"] == []
    return str(out)


def all_examples(folder: str, split: str) -> dict[str, np.ndarray]:
    parts = list(bidding_examples.BiddingExamples(folder, split).in_order(10**9))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_every_call_is_one_example_and_no_deal_is_in_both_splits(boards: Path, folder: str):
    rows = pq.read_table(boards).to_pylist()
    both = [all_examples(folder, split) for split in bidding_examples.SPLITS]
    counted = np.bincount(np.concatenate([part["call"] for part in both]), minlength=38)
    wanted = np.bincount(
        [auction_rules.CALLS.index(call) for row in rows for call in row["auction"].split()],
        minlength=38,
    )
    assert np.array_equal(counted, wanted)
    own = [{bytes(hand) for hand in unpack(part["before"])[:, :52].astype(bool)} for part in both]
    assert not own[0] & own[1]
    assert 0.1 < len(both[1]["call"]) / wanted.sum() < 0.3
    assert both[0]["before"].nbytes == 161 * len(both[0]["call"])


def test_batches_hold_every_example_once_in_an_order_given_by_the_seed(folder: str):
    examples = bidding_examples.BiddingExamples(folder, "train")
    orders = [list(examples.batches(64, np.random.default_rng(seed))) for seed in (1, 1, 2)]
    keys = [
        np.concatenate([b["before"].astype(np.int64) @ np.arange(161) for b in order])
        for order in orders
    ]
    assert np.array_equal(keys[0], keys[1])
    assert not np.array_equal(keys[0], keys[2])
    assert np.array_equal(np.sort(keys[0]), np.sort(keys[2]))
    assert {len(b["call"]) for b in orders[0][:-1]} == {64}
    assert len(keys[0]) == len(examples)


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_ray_data_reads_the_same_batches(boards: Path, tmp_path: Path, monkeypatch):
    """The files have different lengths, and a window covers several."""
    monkeypatch.setattr(parquet, "ROWS", 40)
    out = tmp_path / "many"
    chunked_build.generate(ExamplesConfig.parse([], [boards]), out, LocalPool(), silent)
    both = [bidding_examples.BiddingExamples(str(out), "train", readers) for readers in (0, 2)]
    assert len(both[0].files) > 2 * bidding_examples.FILES_PER_WINDOW
    own, spread = (list(each.batches(64, np.random.default_rng(4))) for each in both)
    assert len(own) == len(spread)
    for one, other in zip(own, spread, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[n], other[n]) for n in one)
        assert all(one[n].dtype == other[n].dtype for n in one)


def test_imps_are_counted_for_the_side_of_the_caller(boards: Path, tmp_path: Path):
    """North-South make ten tricks in spades and no other contract makes: par is 4S, 420 points.
    They stop in three, for 170: 250 less, 6 IMPs."""
    row = pq.read_table(boards).slice(0, 1).to_pylist()[0]
    table = np.zeros((4, 5), int)
    table[[0, 2], 3] = 10
    row |= {"dealer": "N", "vulnerability": "None", "dd_table": format_trick_table(table)}
    row |= {"auction": "1S P 3S P P P"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "one.parquet")
    plan = ExamplesConfig.parse(["outcomes=true"], [tmp_path / "one.parquet"])
    bids = bidding_examples_build._group_by_systems(
        plan, next(board_files.iterate_parts(tmp_path / "one.parquet")).boards
    )
    columns = bidding_examples_build._columns(plan, bids[0])
    assert columns["place"].tolist() == [0, 1, 2, 3, 4, 5]
    assert columns["imps"].tolist() == [-6, 6, -6, 6, -6, 6]


def test_outcomes_can_be_those_of_careful_players(boards: Path):
    systems = ["system_ns=natural", "system_ew=natural"]
    config = ExamplesConfig.parse(["outcomes=true", "tricks=careful", *systems], [boards])
    part = next(board_files.iterate_parts(boards)).boards
    (auctions,) = bidding_examples_build._group_by_systems(config, part)
    played = bidding_examples_build._with_scoring_tricks(config, auctions)
    tables = play_every_contract(card_holders(auctions.hands), "careful")
    assert np.array_equal(played.tables, tables)
    final = auction_rules.final_contracts(auctions.calls, auctions.dealer)
    best = par(tables, auctions.dealer, auctions.vulnerable).score
    tricks = tables[np.arange(len(tables)), final.declarer, final.strain].astype(int)
    points = contract_results.north_south_points(final, auctions.vulnerable, tricks)
    columns = bidding_examples_build._columns(config, played)
    dealer_side = columns["imps"][columns["place"] == 0] * (1 - 2 * (auctions.dealer % 2))
    assert np.array_equal(dealer_side, imps(points - best))
    with pytest.raises(UserError, match="tricks has no use without outcomes=true"):
        ExamplesConfig.parse(["tricks=careful", *systems], [boards])


def test_systems_are_stated_or_inferred(boards: Path, tmp_path: Path, folder: str):
    out = tmp_path / "recorded"
    chunked_build.generate(ExamplesConfig.parse([], [boards]), out, LocalPool(), silent)
    # all of East-West count as precision: 2/1 against Precision, unknown against a strong club
    config = ExamplesConfig.parse(["system_ns=natural", "system_ew=precision"], [boards])
    chunked_build.generate(config, tmp_path / "stated", LocalPool(), silent)
    for split in bidding_examples.SPLITS:
        one, two = (all_examples(str(tmp_path / name), split) for name in ("recorded", "stated"))
        keys = [np.sort(part["before"].astype(np.int64) @ np.arange(161)) for part in (one, two)]
        assert np.array_equal(*keys)
        assert not np.array_equal(keys[0], np.sort(
            all_examples(folder, split)["before"].astype(np.int64) @ np.arange(161)
        ))  # fmt: skip


def test_interrupted_generation_of_examples_continues(
    boards: Path, folder: str, tmp_path: Path, monkeypatch
):
    plan = ExamplesConfig.parse(
        ["outcomes=true", "system_ns=natural", "system_ew=natural"], [boards]
    )
    out, save, written_files = tmp_path / "again", parquet.save, []

    def stops(path: Path, *rest: Any) -> None:
        if len(written_files) == 1:
            raise KeyboardInterrupt
        written_files.append(path)
        save(path, *rest)

    monkeypatch.setattr(parquet, "save", stops)
    with pytest.raises(KeyboardInterrupt):
        chunked_build.generate(plan, out, LocalPool(), silent)
    assert not out.exists()
    monkeypatch.setattr(parquet, "save", save)
    stamp = written_files[0].stat().st_mtime_ns
    chunked_build.generate(plan, out, LocalPool(), silent)
    assert (out / "train" / written_files[0].name).stat().st_mtime_ns == stamp
    for split in bidding_examples.SPLITS:
        one, two = all_examples(str(out), split), all_examples(folder, split)
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_parts_of_another_configuration_are_generated_again(
    boards: Path, folder: str, tmp_path: Path
):
    """Parts of an interrupted run count only for the configuration that made them."""
    out = tmp_path / "mine"
    left = tmp_path / ".mine.parts"
    other = ExamplesConfig.parse(["system_ns=precision", "system_ew=precision"], [boards])
    chunked_build.generate(other, left, LocalPool(), silent)
    arguments = ["outcomes=true", "system_ns=natural", "system_ew=natural"]
    chunked_build.generate(ExamplesConfig.parse(arguments, [boards]), out, LocalPool(), silent)
    for split in bidding_examples.SPLITS:
        one, two = all_examples(str(out), split), all_examples(folder, split)
        assert all(np.array_equal(one[name], two[name]) for name in one)
    with pytest.raises(
        UserError, match="made with system_ns natural, not with system_ns precision"
    ):
        chunked_build.generate(other, out, LocalPool(), silent)
    mixed = next(out.glob("test/*.parquet"))
    mixed_columns = parquet.load(mixed, bidding_examples.KIND)
    parameters = {**mixed_columns.parameters, "seed": 9}
    parquet.save(
        out / "test" / "9.parquet", bidding_examples.KIND, parameters, mixed_columns.columns
    )
    with pytest.raises(
        UserError, match=r"9.parquet was made with other parameters than .*00001.parquet"
    ):
        bidding_examples.BiddingExamples(str(out), "test")


def test_solved_deals_are_bid_the_same_by_any_number_of_workers(
    boards: Path, tmp_path: Path, monkeypatch, two_workers: WorkerPool
):
    monkeypatch.setattr(bidding_examples_build, "BOARDS_AT_ONCE", 150)
    plan = ExamplesConfig.parse(
        ["solved=true", "outcomes=true", "system_ns=natural", "system_ew=precision"], [boards]
    )
    for name, pool in (("one", LocalPool()), ("two", two_workers)):
        made = chunked_build.generate(plan, tmp_path / name, pool, silent)
        assert made["rows"] > 4 * BOARDS
    for split in bidding_examples.SPLITS:
        one, two = (all_examples(str(tmp_path / name), split) for name in ("one", "two"))
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_solved_deals_whose_examples_exist_are_not_bid_again(
    boards: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(bidding_examples_build, "BOARDS_AT_ONCE", 10)
    monkeypatch.setattr(bidding_examples_build, "PIECES_AHEAD", 2)
    plan = ExamplesConfig.parse(["solved=true", "system_ns=natural", "system_ew=natural"], [boards])
    steps = list[tuple[int, int]]()
    chunked_build.generate(
        plan, tmp_path / "whole", LocalPool(), lambda _, done, of: steps.append((done, of))
    )
    assert steps == [(k, BOARDS // 10) for k in range(BOARDS // 10 + 1)]
    bid = bidding_examples_build._bid
    count = 0

    def stopped(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 6:
            raise KeyboardInterrupt
        return bid(*arguments)

    monkeypatch.setattr(bidding_examples_build, "_bid", stopped)
    with pytest.raises(KeyboardInterrupt):
        chunked_build.generate(plan, tmp_path / "cut", LocalPool(), silent)
    chunked_build.generate(plan, tmp_path / "cut", LocalPool(), silent)
    assert count == 6 + BOARDS // 10 - 4
    for split in bidding_examples.SPLITS:
        one, two = (all_examples(str(tmp_path / name), split) for name in ("whole", "cut"))
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_boards_are_read_from_text_files_and_must_be_of_one_kind(boards: Path, tmp_path: Path):
    texts = tmp_path / "boards.pbn"
    board_files.save(texts, board_files.load(boards).boards)
    plan = ExamplesConfig.parse([], [texts])
    made = chunked_build.generate(plan, tmp_path / "texts", LocalPool(), silent)
    recorded = pq.read_table(boards).column("auction").to_pylist()
    assert made["rows"] == sum(len(auction.split()) for auction in recorded)
    none = ExamplesConfig.parse(["kind=human"], [texts])
    with pytest.raises(UserError, match=r"no board of .* gives an example with these options"):
        chunked_build.generate(none, tmp_path / "none", LocalPool(), silent)
    assert not list(tmp_path.glob(".none*"))
    unsolved = tmp_path / "boards.lin"  # LIN has no double-dummy tables
    board_files.save(unsolved, board_files.load(boards).boards)
    half = ExamplesConfig.parse(["outcomes=true"], [unsolved, boards])
    made = chunked_build.generate(half, tmp_path / "half", LocalPool(), silent)
    assert made["left_out"] == [
        f"{unsolved}: {BOARDS} boards are left out: they have no auction, are of another kind, or "
        "lack the finished auction or the double-dummy tricks that outcomes need"
    ]


def test_a_board_with_an_unfinished_auction_has_no_outcome(boards: Path, tmp_path: Path):
    first, *rest = board_files.load(boards).boards
    cut = replace(first, auction=first.auction[:-1], contract=None, declarer=None)
    file = tmp_path / "cut.pbn"
    board_files.save(file, [cut, *rest])
    made = chunked_build.generate(
        ExamplesConfig.parse(["outcomes=true"], [file]), tmp_path / "made", LocalPool(), silent
    )
    assert made["rows"] == sum(len(board.auction) for board in rest)
    assert made["left_out"][0].startswith(f"{file}: 1 boards are left out")


def test_examples_of_other_boards_under_the_same_name_are_not_reused(boards: Path, tmp_path: Path):
    file, out = tmp_path / "boards.pbn", tmp_path / "made"
    recorded = board_files.load(boards).boards
    plan = ExamplesConfig.parse([], [file])
    board_files.save(file, recorded[:20])
    chunked_build.generate(plan, out, LocalPool(), silent)
    board_files.save(file, recorded)
    with pytest.raises(UserError, match=r"boards.pbn has changed since .*made was made"):
        chunked_build.generate(plan, out, LocalPool(), silent)


def job_of(folder: str, **changes: Any) -> Any:
    content = {
        "trainer": "bidding", "game": "auction", "examples": folder, "stop": {"iterations": 12},
        "network": {"hidden": [64], "learning_rate": 0.003, "schedule": "linear", "batch_size": 32},
        **changes,
    }  # fmt: skip
    return job_file.parse(content, registry.JOBS, "tiny")


@pytest.fixture(scope="module")
def trained(folder: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Train a small model of each network."""
    places = {}
    for learn in network_bidder.OUTPUT_WIDTHS:
        job = job_of(folder, target=learn)
        trainer = supervised.BiddingTrainer(job, LocalPool())
        history = [trainer.step() for _ in range(job.stop.iterations)]
        assert history[-1]["loss_nats"] < 0.8 * history[0]["loss_nats"]
        places[learn] = tmp_path_factory.mktemp(learn) / "model"
        plain = job.model_dump(mode="json")
        model_files.save(model_files.Model(trainer.model(), "auction", plain), places[learn])
    return places


def test_trained_calls_are_better_than_always_passing(folder: str, trained: dict[str, Path]):
    stored = model_files.load(trained["calls"])
    job = job_file.parse(stored.job, registry.JOBS, "its card")
    rows = registry.TRAINERS["bidding"].evaluate_model(
        job, stored.weights, LocalPool(), np.random.default_rng(0)
    )
    whole, calls = rows[0], all_examples(folder, "test")["call"]
    assert whole["calls"] == len(calls)
    assert whole["total"] > (calls == auction_rules.PASS).mean() + 0.05
    share = (calls < auction_rules.BIDS).mean()
    assert whole["total"] == pytest.approx(share * whole["real"] + (1 - share) * whole["unreal"])
    by_length = [row for row in rows if row["part"] in ("4", "5 to 8")]
    (short,) = [row for row in rows if row["part"] == "4 to 8 calls"]
    assert short["calls"] == sum(row["calls"] for row in by_length)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop"])
def test_a_network_does_not_see_features_that_it_ignores(folder: str, optimizer: str):
    network = {"hidden": [16], "optimizer": optimizer, "ignored_features": ["points", "kings"]}
    trainer = supervised.BiddingTrainer(job_of(folder, network=network), LocalPool())
    trainer.step()
    ignored = features.group_columns(["points", "kings"])
    assert len(ignored) == 4 * (123 + 6)
    rows = trainer.learner.weights()["w0"]
    assert (rows[ignored] == 0).all()
    assert (np.delete(rows, ignored, axis=0) != 0).any(axis=1).all()


def test_features_cannot_be_ignored_by_a_network_that_does_not_see_them(folder: str):
    network = {"hidden": [16], "inputs": "auction", "ignored_features": ["points"]}
    with pytest.raises(UserError, match="inputs=auction has no features of players"):
        job_of(folder, network=network)


def test_a_share_of_the_examples_is_the_first_of_each_file(folder: str):
    whole, some = (
        bidding_examples.BiddingExamples(folder, "train", share=share) for share in (1.0, 0.3)
    )
    firsts = [rows["call"] for rows in whole.in_order(len(whole))]
    parts = [rows["call"] for rows in some.in_order(len(some))]
    assert len(some) == sum(map(len, parts)) < len(whole)
    for first, part in zip(firsts, parts, strict=True):
        assert len(part) == math.ceil(0.3 * len(first))
        assert np.array_equal(part, first[: len(part)])
    seen = sum(len(batch["call"]) for batch in some.batches(64, np.random.default_rng(0)))
    assert seen == len(some)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop"])
def test_a_resumed_network_ends_as_one_that_never_stopped(folder: str, optimizer: str):
    network = {"hidden": [16], "learning_rate": 0.001, "optimizer": optimizer, "inputs": "both"}
    job = job_of(folder, network=network, stop={"iterations": 2})
    whole = supervised.BiddingTrainer(job, LocalPool())
    uninterrupted = [whole.step() for _ in range(2)]
    first = supervised.BiddingTrainer(job, LocalPool())
    first.step()
    second = supervised.BiddingTrainer(job, LocalPool())
    second.load({name: value.copy() for name, value in first.state().items()})
    assert second.step() == uninterrupted[-1]
    ended = second.state()
    assert all(np.array_equal(value, ended[name]) for name, value in whole.state().items())


def test_a_loss_of_nan_stops_training_with_one_line(folder: str):
    trainer = supervised.BiddingTrainer(job_of(folder), LocalPool())
    trainer.step()
    state = trainer.state()
    broken = {name: np.full_like(v, np.nan) if name.endswith(".w0") else v
              for name, v in state.items()}  # fmt: skip
    trainer.load(broken)
    with pytest.raises(
        RunError, match=r"the loss is nan in iteration 2: .* a smaller learning rate"
    ):
        trainer.step()


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_two_learners_compute_what_one_does(folder: str, tmp_path: Path):
    """Training starts from a checkpoint; batches are odd, so the learners' shares differ."""
    network = {"hidden": [16], "learning_rate": 0.003, "batch_size": 333}
    one = job_of(folder, network=network, stop={"iterations": 3})
    one_learner = supervised.BiddingTrainer(one, LocalPool())
    one_learner.step()
    write_checkpoint(tmp_path, one_learner.state())
    expected = {n: one_learner.step() for n in (2, 3)}
    two = one.model_copy(update={"resources": job_file.Resources(learners=2, cpus=0.5)})
    metrics: dict[int, dict[str, float]] = {}
    assert tune_trial.train(
        [tune_trial.PlannedTrial(two, metrics.__setitem__)], RunFolder(tmp_path)
    ) == [None]
    assert metrics.keys() == expected.keys()
    for iteration, wanted in expected.items():
        learnt = {name for name in metrics[iteration] if not name.startswith(SPEED)}
        assert learnt == wanted.keys()
        for name, number in wanted.items():
            assert_float32_close(metrics[iteration][name], number)
    found, ended = RunFolder(tmp_path).checkpoints().state(), one_learner.state()
    assert found.keys() == ended.keys()
    for name, value in ended.items():
        assert_float32_close(found[name], value)


def test_several_learners_need_whole_gpus(folder: str):
    with pytest.raises(UserError, match=r"gpus 0.5 with 2 learners: set gpus to 1 or 0"):
        job_of(folder, resources={"learners": 2, "gpus": 0.5})


@pytest.mark.usefixtures("local_ray")
def test_more_learners_than_a_cluster_can_hold_are_refused(
    folder: str, tmp_path: Path, monkeypatch
):
    job = job_of(folder, resources={"learners": 1000})
    with pytest.raises(UserError, match="the job asks for 1001 CPU and the cluster has"):
        tune_trial.train([tune_trial.PlannedTrial(job, lambda *_: None)], RunFolder(tmp_path))
    cpus = ray.cluster_resources()["CPU"]
    assert room_for([{"CPU": 1.5}, {"CPU": 0.5}], 9) == cpus // 2
    halves = [{"Alive": True, "Resources": {"CPU": cpus / 2}}] * 2
    monkeypatch.setattr(ray, "nodes", lambda: halves)
    start_ray([{"CPU": cpus / 2}] * 2)
    with pytest.raises(UserError, match=r"no node of the cluster has .* CPU for one process"):
        start_ray([{"CPU": cpus / 2 + 1}])
    # an autoscaler may add nodes, but not to this machine
    monkeypatch.setenv("OVERTRICK_MACHINES", f"2x{cpus + 1}CPU")
    with pytest.raises(UserError, match=r"no node of the cluster has"):
        start_ray([{"CPU": cpus / 2 + 1}])
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    start_ray([{"CPU": cpus / 2 + 1}])
    assert room_for([{"CPU": cpus}], 9) == 2  # neither half has room


def write_checkpoint(folder: Path, state: dict[str, np.ndarray]) -> None:
    """Write a state into a folder as the checkpoint of an interrupted run."""
    place = folder / "tune-0" / "trial-0" / "checkpoint_000000"
    place.mkdir(parents=True)
    save_file(state, place / run_folder.STATE)


@pytest.mark.usefixtures("local_ray")
def test_a_diverging_run_stops_at_once_and_resumes_with_a_smaller_learning_rate(
    folder: str, tmp_path: Path
):
    """It is not retried, because it would diverge again, and its checkpoint stays."""

    def job_at(iterations: int, rate: float) -> Any:
        network = {"hidden": [8], "optimizer": "sgd", "learning_rate": rate, "batch_size": 512}
        return job_of(folder, network=network, stop={"iterations": iterations})

    def ended(iterations: int, rate: float) -> RunError | None:
        planned = tune_trial.PlannedTrial(job_at(iterations, rate), lambda *_: None)
        return tune_trial.train([planned], RunFolder(tmp_path))[0]

    trainer = supervised.BiddingTrainer(job_at(1, 0.01), LocalPool())
    trainer.step()
    good = trainer.state()
    write_checkpoint(tmp_path, good)
    assert "in iteration 2: the last checkpoint is still valid" in str(ended(3, 1e30))
    assert not list(tmp_path.rglob("error.txt"))  # Tune's count of retries
    checkpoint = RunFolder(tmp_path).checkpoints().state()
    assert all(np.array_equal(value, checkpoint[name]) for name, value in good.items())
    assert ended(2, 0.001) is None
    assert RunFolder(tmp_path).checkpoints().state()["iteration"] == 2


def bidder_job(trained: dict[str, Path], boards: Path, **bidder: Any) -> Any:
    interval = {"target_update_interval": 3} if bidder.get("target") == "next" else {}
    content = {
        "trainer": "bidder", "game": "auction", "call_model": str(trained["calls"]),
        "value_model": str(trained["imps"]), "deals": str(boards), "stop": {"iterations": 2},
        "bidder": {"games": 300, "gradient_steps": 5, "replay_capacity": 2000,
                   **interval, **bidder},
        "network": {"batch_size": 64},
        "evaluate": {"every": 2, "boards": 60, "final_boards": 60, "opponents": ["precision"]},
    }  # fmt: skip
    return job_file.parse(content, registry.JOBS, "tiny")


def ended(job: Any, pool: WorkerPool) -> tuple[list[dict[str, float]], dict[str, np.ndarray]]:
    """Two iterations, with a stop between: their metrics, and the state at the end."""
    page = registry.TRAINERS["bidder"]
    trainer = page.trainer(job, pool)
    metrics = [trainer.step()]
    again = page.trainer(job, pool)
    again.load({name: value.copy() for name, value in trainer.state().items()})
    metrics.append(again.step())
    state = again.state()
    again.close()
    return metrics, state


def test_reinforcement_learning_is_the_same_with_workers_and_after_a_stop(
    trained: dict[str, Path], boards: Path, two_workers: WorkerPool
):
    job = bidder_job(trained, boards)
    registry.TRAINERS["bidder"].validate(job)
    whole = registry.TRAINERS["bidder"].trainer(job, LocalPool())
    uninterrupted = [whole.step(), whole.step()]
    metrics, state = ended(job, two_workers)
    assert metrics == uninterrupted
    assert all(np.array_equal(value, state[name]) for name, value in whole.state().items())
    assert metrics[1]["auctions"] == 600


def test_the_target_of_a_call_is_the_value_of_its_sides_next_call(
    trained: dict[str, Path], boards: Path
):
    trainer = registry.TRAINERS["bidder"].trainer(
        bidder_job(trained, boards, target="next"), LocalPool()
    )
    trainer.step()
    places = np.arange(100)
    rows = trainer.outcomes.memory.at(places)
    goal, last = trainer.outcomes.targets(places, rows), rows["last"]
    assert_float32_close(goal.sum(axis=1), 1)
    assert (goal[last].argmax(axis=1) == rows["imps"][last] + network_bidder.MAX_IMPS).all()
    assert (goal[last].max(axis=1) == 1).all()
    assert (goal[~last].max(axis=1) < 1).all()
    possible = np.ones((100, network_bidder.IMP_CLASSES), bool)
    after = trainer.outcomes.target_network.log_probs(unpack(rows["after"]), possible)
    inside = np.flatnonzero(~last[:-1])
    assert_float32_close(goal[inside], np.exp(after[inside + 1]))


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs a command and returns its JSON answer."""

    def run(*words: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["overtrick", *words, "--json"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        return answer

    return run


def test_commands_generate_examples_and_suggest_calls(
    boards: Path, trained: dict[str, Path], tmp_path: Path, run_command: Any
):
    out = str(tmp_path / "made")
    made = run_command("generate", "examples", "--file", str(boards), "--out", out)
    assert (made["path"], made["rows"], made["left_out"]) == (
        out,
        sum(len(bidding_examples.BiddingExamples(out, split)) for split in bidding_examples.SPLITS),
        [],
    )
    place, hand = str(trained["calls"]), "AQ42.K5.QT93.K76"
    answer = run_command(
        "bridge", "suggest", place, hand, "1N P", "--against", "precision", "--dealer", "E"
    )
    assert answer["hand"] == hand
    assert answer["candidates"][0]["probability"] >= network_bidder.CANDIDATE_THRESHOLD


def test_a_bidder_plays_matches(trained: dict[str, Path], run_command: Any):
    place = str(trained["calls"])
    answer = run_command("match", place, "precision", "--boards", "6", "--show", "1")
    assert answer["unit"] == "imp"
    assert answer["boards"] == 6
    side = bidders.load_side(place)
    rng = np.random.default_rng(3)
    holder, dealer, vulnerable = deal_boards(0, 30, "random", "random", rng)
    other = bidders.load_side("precision")
    for calls in bidders.bid_auctions(side, other, holder, dealer, vulnerable, rng):
        auction_rules.check_auction([int(made) for made in calls[calls >= 0]])  # legal and complete


def test_a_bidder_lists_its_candidate_calls(trained: dict[str, Path]):
    side, other = bidders.load_side(str(trained["calls"])), bidders.load_side("natural")
    calls = auction_rules.parse_calls("1N P")
    thought = bidders.rank_calls(side, other, calls, "AQ42.K5.QT93.K76", 1, 3)
    assert all(each.call > auction_rules.CALLS.index("1N") for each in thought)
    assert [each.imps for each in thought] == [None] * len(thought)
    chances = [each.probability for each in thought]
    assert chances == sorted(chances, reverse=True)
    assert network_bidder.CANDIDATE_THRESHOLD <= min(chances) <= sum(chances) <= 1
    for hand, message in (
        ("AQ42.K5.QT93.K7", "a hand has 13 cards, but 'AQ42.K5.QT93.K7' has 12"),
        ("AQ42.K5.QT93.K7Z", "'Z' in the hand 'AQ42.K5.QT93.K7Z' is not a rank"),
        ("AQ42.K5.QT93", "the hand 'AQ42.K5.QT93' has 3 suits, not 4"),
    ):
        with pytest.raises(UserError, match=message):
            bidders.rank_calls(side, other, calls, hand, 0, 0)
    by_rules, *others = bidders.rank_calls(other, side, calls, "AQ42.K5.QT93.K76", 0, 0)
    assert (by_rules.probability, by_rules.imps) == (1, None)
    assert len(others) > 5  # the other calls of the system in this auction
    assert all(each.probability == 0 for each in others)
    over = auction_rules.parse_calls("P P P P")
    with pytest.raises(UserError, match="the auction is over"):
        bidders.rank_calls(side, other, over, "AQ42.K5.QT93.K76", 0, 0)


def test_unusable_examples_are_refused_with_one_line(folder: str, boards: Path, tmp_path: Path):
    check = registry.TRAINERS["bidding"].validate
    with pytest.raises(UserError, match=r"no examples in .*absent: overtrick generate examples"):
        check(job_of(str(tmp_path / "absent")))
    with pytest.raises(UserError, match="are those of natural and natural, not of precision"):
        check(job_of(folder, system="precision"))
    plain = tmp_path / "plain"
    chunked_build.generate(ExamplesConfig.parse([], [boards]), plain, LocalPool(), silent)
    with pytest.raises(UserError, match="have no IMPs: generate them again with"):
        check(job_of(str(plain), target="imps"))
    files = [next(plain.glob(f"{split}/*.parquet")) for split in bidding_examples.SPLITS]
    columns_read = parquet.load(files[0], bidding_examples.KIND)
    for file in files:
        changed = {**columns_read.parameters, "rules": ["what natural said before"]}
        parquet.save(file, bidding_examples.KIND, changed, columns_read.columns)
    with pytest.raises(
        UserError, match=r"the systems have changed since .*plain was made: generate"
    ):
        check(job_of(str(plain)))
    kind = parquet.Kind(bidding_examples.KIND.name, bidding_examples.KIND.version + 1, "")
    parquet.save(files[0], kind, columns_read.parameters, columns_read.columns)
    with pytest.raises(UserError, match="has version 3, not 2: generate them again"):
        check(job_of(str(plain)))


def test_a_network_is_refused_when_the_rules_of_its_training_have_changed(
    trained: dict[str, Path], boards: Path, folder: str, tmp_path: Path, monkeypatch
):
    """The features of a call depend on the meaning of earlier calls in the system."""
    job = bidder_job(trained, boards)
    before = job_file.parse(model_files.load(trained["calls"]).job, registry.JOBS, "its card")
    assert before.system_version == {"natural": loader.fingerprint(loader.load("natural"))}
    monkeypatch.setattr(loader, "fingerprint", lambda rules: f"{rules.name} changed")
    place, plan = str(trained["calls"]), ["solved=true"]
    message = rf"the rules of natural have changed since the model in {place} was trained: train it"
    with pytest.raises(UserError, match=message):  # before a match and before suggestions
        bidders.load_side(place)
    with pytest.raises(UserError, match=message):
        ExamplesConfig.parse([*plan, f"system_ns={place}", f"system_ew={place}"], [boards])
    with pytest.raises(UserError, match=message):
        registry.TRAINERS["bidder"].validate(bidder_job(trained, boards))
    weights, rng = model_files.load(trained["imps"]).weights, np.random.default_rng(0)
    with pytest.raises(UserError, match="since the bidder of this job was trained"):
        registry.TRAINERS["bidder"].evaluate_model(job, weights, LocalPool(), rng)
    made = tmp_path / "made"
    arguments = ["outcomes=true", "system_ns=natural", "system_ew=natural"]
    chunked_build.generate(ExamplesConfig.parse(arguments, [boards]), made, LocalPool(), silent)
    new = job_of(str(made))
    registry.TRAINERS["bidding"].validate(new)
    old = new.model_copy(update={"system_version": before.system_version})
    trainer = registry.TRAINERS["bidding"]
    for refused in (
        lambda: trainer.validate(old),
        lambda: trainer.evaluate_model(old, weights, LocalPool(), rng),
    ):
        with pytest.raises(UserError, match="by other rules than those of natural in this job"):
            refused()


def test_a_wrong_configuration_or_job_is_refused_with_one_line(
    folder: str, boards: Path, tmp_path: Path
):
    check = registry.TRAINERS["bidding"].validate
    with pytest.raises(UserError, match="the bidding trainer is for the auction, not for kuhn"):
        check(job_of(folder, game="kuhn"))
    with pytest.raises(UserError, match="unknown bidding system 'naturel': did you mean 'natural'"):
        check(job_of(folder, system="naturel"))
    with pytest.raises(UserError, match="name a file of boards"):
        ExamplesConfig.parse([], [])
    with pytest.raises(UserError, match="set --system-ns and --system-ew"):
        ExamplesConfig.parse(["solved=true"], [boards])
    rows = pq.read_table(boards).slice(0, 2).to_pylist()
    rows[1]["deal"] = None
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "odd.parquet")
    with pytest.raises(UserError, match=r"odd\.parquet: row 2: it has no deal"):
        list(bidders.solved_deals(str(tmp_path / "odd.parquet")))


def test_deals_are_sampled_evenly(boards: Path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 50)
    rows = np.concatenate(list(bidders.solved_deals(str(boards))))
    assert len(rows) == BOARDS
    assert np.array_equal(bidders.sample_deals((str(boards),), BOARDS, 1), rows)
    twice = bidders.sample_deals((str(boards), str(boards)), 2 * BOARDS, 1)
    assert np.array_equal(twice, np.concatenate([rows, rows]))
    places = {deal.tobytes(): place for place, deal in enumerate(rows)}
    counts = np.zeros(BOARDS)
    for seed in range(30):
        own = [places[deal.tobytes()] for deal in bidders.sample_deals((str(boards),), 90, seed)]
        assert own == sorted(set(own))
        assert len(own) == 90
        counts[own] += 1
    assert counts.max() < 20  # each is in 6.75 samples, give or take 2.3
    assert (abs(counts.reshape(-1, 50).mean(axis=1) - 6.75) < 1.5).all()


def test_unusable_models_are_refused_with_one_line(
    trained: dict[str, Path], boards: Path, tmp_path: Path
):
    check = registry.TRAINERS["bidder"].validate
    with pytest.raises(UserError, match="has no network of calls: a bidder needs one"):
        bidders.load_side(str(trained["imps"]))
    with pytest.raises(UserError, match="has no network of calls: train one with target: calls"):
        check(bidder_job({"calls": trained["imps"], "imps": trained["imps"]}, boards))
    plain = bidder_job(trained, boards).model_dump(mode="json")
    other = job_file.parse({**plain, "system": "precision"}, registry.JOBS, "tiny")
    with pytest.raises(UserError, match=r"system is precision, but the model in .* bids natural"):
        check(other)
    stored = model_files.load(trained["calls"])
    for network, message in (
        ({}, "is damaged: network needs activation and bfloat16"),
        ({"activation": "tanh", "bfloat16": 1}, "is damaged: network needs activation and"),
        ({"activation": "tanh", "bfloat16": False}, "leaky_relu, but .* has tanh"),
    ):
        bad = tmp_path / f"bad{len(message)}"
        model_files.save(
            model_files.Model(stored.weights, "auction", stored.job | {"network": network}), bad
        )
        with pytest.raises(UserError, match=message):
            check(bidder_job({**trained, "calls": bad}, boards))
    weights = stored.weights | {"calls.b0": np.full_like(stored.weights["calls.b0"], np.nan)}
    model_files.save(model_files.Model(weights, "auction", stored.job), tmp_path / "nan")
    with pytest.raises(UserError, match=r"network of calls in .* its weights must be finite"):
        bidders.load_side(str(tmp_path / "nan"))


def test_errors_of_two_imps_are_within_two_and_lengths_include_their_ends():
    of = {
        "imps": np.zeros(5), "expected": np.array([2.0, -2.0, 2.5, 0.0, 3.0]),
        "predicted": np.array([0, 2, 3, -2, 0], np.int8), "call": np.zeros(5, np.int64),
        "length": np.array([4, 8, 9, 12, 17]), "type": np.full(5, 2),
    }  # fmt: skip
    assert bidding_accuracy.imp_errors(of) == {
        "error": pytest.approx(9.5 / 5), "within_2": 3 / 5, "likeliest_right": 2 / 5,
        "likeliest_within_2": 4 / 5,
    }  # fmt: skip
    table = bidding_accuracy.accuracy_table(of, bidding_accuracy.imp_errors)
    assert {row["part"]: row["calls"] for row in table} == {
        "all": 5, "4 to 8 calls": 2, "4": 1, "5 to 8": 1, "9 to 12": 2, "17 and more": 1,
        "natural": 5,
    }  # fmt: skip


def test_the_accuracy_of_calls_counts_bids_and_other_calls_apart():
    of = {
        "call": np.array([0, 0, 34, 35, 36]), "predicted": np.array([0, 1, 34, 35, 35]),
        "sure": np.array([0.95, 0.85, 0.95, 0.55, 0.55]),
    }  # fmt: skip
    found = bidding_accuracy.call_accuracy(of)
    assert (found["total"], found["real"], found["unreal"]) == (0.6, 2 / 3, 0.5)
    assert found["sure"] == pytest.approx(0.77)
    gaps = abs(2 - 1.9) + abs(0 - 0.85) + abs(1 - 1.1)  # by tenths of certainty
    assert found["calibration_error"] == pytest.approx(gaps / 5)
