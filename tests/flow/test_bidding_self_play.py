"""Self-play of bidding networks: both networks learn from boards against past selves and bidding
systems."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.bidding_files import write_boards, write_untrained_model
from tests.rounding import assert_float32_close

from overtrick.config import job_file
from overtrick.core import UserError, select_rows
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.evaluation import bidders
from overtrick.games.bridge.auction import network_bidder
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.game import DD_TABLE, Auction
from overtrick.games.bridge.cardplay.played_tables import play_every_contract
from overtrick.games.bridge.cards import CARDS
from overtrick.games.bridge.system import loader
from overtrick.policies.rollout import play
from overtrick.storage import model_files
from overtrick.training import registry
from overtrick.training.bidding import call_results, pretrained, self_play

PAGE = registry.TRAINERS["selfplay_bidding"]
BOARDS = 60


@pytest.fixture(scope="module")
def deals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write deals with random tricks."""
    path = tmp_path_factory.mktemp("deals") / "deals.parquet"
    write_boards(path, 200, seed=8)
    return path


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store untrained models of both networks; the value network sees the last bid."""
    folder = tmp_path_factory.mktemp("untaught") / "model"
    write_untrained_model(folder)
    return folder


def job_of(
    untrained: Path, deals: Path | list[str], play: dict[str, Any] | None = None, **more: Any
) -> Any:
    content = {
        "trainer": "selfplay_bidding", "game": "auction", "call_model": str(untrained),
        "value_model": str(untrained), "stop": {"iterations": 3},
        "deals": deals if isinstance(deals, list) else str(deals),
        "network": {"batch_size": 32},
        "play": {"boards": 140, "learning_rate": 0.001, "minibatches": 2,
                 "value_warmup_iterations": 1, "past_selves": 2, "snapshot_interval": 1,
                 **(play or {})},
        "values": {"gradient_steps": 3, "replay_capacity": 3000},
        "evaluate": {"every": 3, "boards": 20, "final_boards": 20, "opponents": ["precision"]},
        **more,
    }  # fmt: skip
    return job_file.parse(content, registry.JOBS, "tiny")


def ended(job: Any, pool: WorkerPool, stop: int) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """Train with a stop and a resume after `stop` iterations. Return the metrics of every iteration
    and the final state."""
    trainer = PAGE.trainer(job, pool)
    metrics: list[dict[str, float]] = []
    for iteration in range(job.stop.iterations):
        metrics.append(trainer.step())
        if iteration + 1 == stop:
            state = {name: value.copy() for name, value in trainer.state().items()}
            trainer = PAGE.trainer(job, pool)
            trainer.load(state)
    state = trainer.state()
    trainer.close()
    return metrics, state


@pytest.mark.parametrize("estimator", ["every_call", "sampled_call"])
def test_training_is_the_same_with_workers_and_after_a_stop(
    untrained: Path, deals: Path, two_workers: WorkerPool, estimator: str
):
    job = job_of(untrained, deals, {"gradient_estimator": estimator})
    PAGE.validate(job)
    expected, state = ended(job, LocalPool(), stop=0)
    metrics, other = ended(job, two_workers, stop=2)
    assert metrics == expected
    assert all(np.array_equal(value, other[name]) for name, value in state.items())
    assert "gain" not in expected[0]  # only the value network learns at first
    assert expected[1]["teacher_kl_nats"] == 0 < expected[2]["teacher_kl_nats"]
    assert 0 <= expected[2]["true_calls"] <= 1
    first, second = (state["past.w0"][k] for k in range(2))
    before = model_files.load(untrained).weights["calls.w0"]
    assert np.array_equal(second, before)  # it joined before the first update
    assert not np.array_equal(first, before)


def sides(untrained: Path) -> tuple[bidders.Side, bidders.Side]:
    """Return a bidder with constant values, and the rules of precision."""
    side = bidders.load_side(str(untrained))
    assert side.imps is not None
    plain = {name: 0 * value for name, value in side.imps.weights.items()}
    return side._replace(imps=side.imps._replace(weights=plain)), bidders.load_side("precision")


def play_boards(
    deals: Path, reward: str, side: bidders.Side, other: bidders.Side, how: str = "sampled_call"
) -> Any:
    rng = np.random.default_rng(2)
    boards = bidders.rotate_deals(bidders.sample_deals((str(deals),), BOARDS, 0), rng)
    section = self_play.SelfPlayConfig.model_validate({"reward": reward, "gradient_estimator": how})
    return boards, *self_play._play_boards(rng, (side, section), boards, other)


def test_rewards_of_both_tables_are_the_imps_of_a_match(untrained: Path, deals: Path):
    """Constant values expect nothing, so the reward is the gain of a call alone. A bidder that is
    sure of its calls bids as in a match."""
    side, other = sides(untrained)
    assert side.calls is not None
    last = {name: 1e6 * side.calls.weights[name] for name in ("w1", "b1")}
    side = side._replace(calls=side.calls._replace(weights=side.calls.weights | last))
    boards, done, expected = play_boards(deals, "table", side, other)
    won = bidders.imps_between(side, other, boards, np.random.default_rng(0))
    assert won.any()
    assert_float32_close(done["credit"].sum(axis=1), won[done["game"] % BOARDS], size=24)
    assert_float32_close(done["squared"], done["credit"].sum(axis=1) ** 2, size=24**2)
    assert ((done["credit"] != 0) <= done["legal"]).all()
    assert np.array_equal(expected["imps"], won[done["game"] % BOARDS])
    assert set(done["game"][expected["last"]]) <= set(range(2 * BOARDS))
    _, done, _ = play_boards(deals, "table", side, side._replace(imps=None))
    assert not done["squared"].round(4).any()  # against itself a bidder wins nothing
    _, done, _ = play_boards(deals, "par", side, side._replace(imps=None))
    assert done["squared"].round(4).any()
    _, done, _ = play_boards(deals, "table", side, other, "every_call")
    assert not done["credit"].any()  # a bidder that is sure of its calls compares none


@pytest.mark.parametrize(("reward", "seat"), [("table", 0), ("par", 1)])
def test_credits_of_every_call_are_differences_between_whole_auctions(
    untrained: Path, deals: Path, reward: str, seat: int
):
    """Some decisions are bid on by hand after each of their calls."""
    side, other = sides(untrained)
    boards, done, _ = play_boards(deals, reward, side, other, "every_call")
    assert_float32_close(done["credit"].sum(axis=1), 0, size=24)
    assert done["squared"].max() > 1
    systems = (side.system, other.system)[:: 1 - 2 * seat]
    own = network_bidder.SamplingBidder(*systems, side.calls, side.imps)
    greedy = network_bidder.NetworkBidder(*systems, side.calls)
    theirs = other.policy(*systems)
    bidding, later = ((first, theirs)[:: 1 - 2 * seat] for first in (own, greedy))
    game = Auction("points" if reward == "table" else "imps", seats=2)
    batch = play(game, bidding, boards, np.random.default_rng(5), recorded=(seat,)).batch
    likely = own.call_probabilities(batch.observations())
    compared = network_bidder.candidate_calls(likely)
    found = call_results.results_of_calls(
        game, later, boards, batch, compared, np.random.default_rng(6)
    )
    assert np.array_equal(np.isfinite(found), compared & (compared.sum(axis=1) > 1)[:, None])
    for row in np.flatnonzero(np.isfinite(found).any(axis=1))[:3]:
        for call in np.flatnonzero(np.isfinite(found[row])):
            board = boards[batch.game[[row]]]
            state = game.start(board)
            made = obs.calls_from_observation(batch.observation[row])
            for each in [*made, call]:
                payoff = game.step(state, game.observe(state), np.array([each]))
            while len(here := game.observe(state)):
                bidder = later[here.seat[0]]
                payoff = game.step(state, here, bidder.probs(here).argmax(axis=1))
            assert found[row, call] == payoff[0, seat]


def test_credits_are_shares_of_the_distance_from_the_mean_result():
    results = np.array([[4.0, np.nan, -2.0, 1.0], [np.nan] * 4])
    likely = np.array([[0.2, 0.5, 0.2, 0.1], [1.0, 0, 0, 0]])
    credit, squared = call_results.call_credit(results, likely)
    mean = (0.2 * 4 - 0.2 * 2 + 0.1 * 1) / 0.5
    expected = np.array([0.4 * (4 - mean), 0, 0.4 * (-2 - mean), 0.2 * (1 - mean)])
    assert_float32_close(credit[0], expected, size=4)
    variance = 0.4 * (4 - mean) ** 2 + 0.4 * (-2 - mean) ** 2 + 0.2 * (1 - mean) ** 2
    assert squared[0] == pytest.approx(variance)
    assert not credit[1].any()
    assert squared[1] == 0


def test_training_can_score_contracts_by_play_without_sight_of_hidden_hands(
    untrained: Path, deals: Path
):
    solved, played = (
        PAGE.trainer(job_of(untrained, deals, tricks=tricks), LocalPool())
        for tricks in ("double_dummy", "careful")
    )
    assert np.array_equal(solved.test_deals, played.test_deals)  # evaluations are double dummy
    assert np.array_equal(solved.deals[:, :DD_TABLE], played.deals[:, :DD_TABLE])
    tables = play_every_contract(played.deals[:, :CARDS], "careful")
    assert np.array_equal(played.deals[:, DD_TABLE:], tables.reshape(len(tables), 20))


def test_a_job_can_name_several_files_of_deals(untrained: Path, deals: Path, tmp_path: Path):
    other = tmp_path / "other.parquet"
    write_boards(other, 50, seed=9)
    one, two, both = (
        np.concatenate(pretrained.split_deals(job_of(untrained, files), 1000))
        for files in (deals, other, [str(deals), str(other)])
    )
    assert len(both) == len(one) + len(two) == 250
    every = {deal.tobytes() for deal in (*one, *two)}
    assert every == {deal.tobytes() for deal in both}


def test_a_model_of_self_play_can_be_trained_further(untrained: Path, deals: Path, tmp_path: Path):
    """It keeps the value network that it does not bid with, and its training goes on from there."""
    first = model_files.load(untrained)
    weights = {n.replace("imps.", "baseline."): v for n, v in first.weights.items()}
    folder = tmp_path / "played"
    model_files.save(model_files.Model(weights, "auction", first.job), folder)
    assert bidders.load_side(str(folder)).imps is None
    expected, found = (
        pretrained.load_networks(job_of(f, deals), unused_values=True) for f in (untrained, folder)
    )
    for one, other in zip(expected, found, strict=True):
        assert all(np.array_equal(value, other.weights[n]) for n, value in one.weights.items())


def test_a_value_is_the_mean_of_the_candidates_values(untrained: Path, rng):
    side = bidders.load_side(str(untrained))
    rules = loader.load("natural")
    assert side.calls is not None
    policy = network_bidder.SamplingBidder(rules, rules, side.calls, side.imps)
    game = Auction("nothing", seats=2)
    batch = play(game, (policy, policy), 3, rng).batch
    observations = select_rows(batch.observations(), np.arange(12))
    for value, candidates in zip(
        policy.value(observations), policy.candidates(observations), strict=True
    ):
        weights = [each.probability for each in candidates]
        worth = [each.imps for each in candidates]
        assert_float32_close(value, np.average(np.array(worth, float), weights=weights), size=24)
    assert np.array_equal(policy.probs(observations), policy.call_probabilities(observations))


def test_a_bidder_in_value_warmup_wins_nothing_by_its_calls(
    untrained: Path, deals: Path, tmp_path: Path
):
    job = job_of(untrained, deals, {"value_warmup_iterations": 9}, stop={"iterations": 1})
    trainer = PAGE.trainer(job, LocalPool())
    trainer.step()
    folder = tmp_path / "model"
    model_files.save(
        model_files.Model(trainer.model(), "auction", job.model_dump(mode="json")), folder
    )
    rows = PAGE.evaluate_model(
        job, model_files.load(folder).weights, LocalPool(), np.random.default_rng(0)
    )
    report = trainer.report([(1, {"boards": 140.0})])
    assert (report.rows, report.figures) == (rows, {})  # no evaluation during training
    assert [(row["side"], row["opponent"]) for row in rows] == [
        ("calls", pretrained.PRETRAINED), ("calls", "precision"),
        ("calls and values", pretrained.PRETRAINED), ("calls and values", "precision"),
        (pretrained.PRETRAINED, "precision"),
    ]  # fmt: skip
    assert rows[0]["mean"] == rows[0]["standard_error"] == PAGE.table_score(rows) == 0
    same = {"side": pretrained.PRETRAINED}
    assert rows[1] | same == rows[4]
    assert rows[0]["boards"] == 20
    assert bidders.load_side(str(folder)).imps is None
    trainer.job = job_of(untrained, deals, {"final_policy": "values"})
    assert network_bidder.OUTPUT_WIDTHS.keys() == {n.partition(".")[0] for n in trainer.model()}


def test_a_wrong_job_is_refused_with_one_line(untrained: Path, deals: Path):
    for wrong, message in (
        (job_of(untrained, deals, game="kuhn"), "the selfplay_bidding trainer is for the auction"),
        (job_of(untrained, deals, {"opponents": ["naturel"]}), "did you mean 'natural'"),
        (
            job_of(untrained, deals, evaluate={"opponents": ["precisian"]}),
            "did you mean 'precision'",
        ),
        (job_of(untrained, deals, system="precision"), "system is precision, but the model in"),
    ):
        with pytest.raises(UserError, match=message):
            PAGE.validate(wrong)
    with pytest.raises(UserError, match=r"gae_lambda"):
        job_of(untrained, deals, {"gae_lambda": 0.9, "gradient_estimator": "every_call"})
    with pytest.raises(UserError, match=r"play.teacher_kl_coef"):
        job_of(untrained, deals, {"teacher_kl_coef": -1})


def test_a_file_without_deals_for_evaluation_is_refused():
    job = SimpleNamespace(deals=("few.parquet",), seed=0)
    with pytest.raises(UserError, match=r"few\.parquet: too few deals"):
        pretrained.evaluation_boards(job, np.zeros((0, 74), np.int8), 8)
