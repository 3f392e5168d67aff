"""Replay buffers, Q-learning and NFSP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from overtrick import make
from overtrick.config import job_file
from overtrick.core import RunError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.policy_gradient.advantages import discounted_returns
from overtrick.learners.value_based.dqn import Dqn, DqnConfig, epsilon_greedy
from overtrick.learners.value_based.replay_buffer import ReservoirBuffer, RingBuffer
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play, random_seating
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.training import registry
from overtrick.training.shared_sections import QLearning

PLAN = DqnConfig(
    learning_rate=0.003,
    steps=20,
    batch_size=128,
    replay_capacity=20_000,
    target_update_interval=50,
    gamma=1.0,
    loss="squared",
    double=True,
)


def numbered(start, count):
    numbers = np.arange(start, start + count)
    return {"number": numbers, "pair": np.stack([numbers, -numbers], axis=1)}


@pytest.mark.parametrize("sizes", [(3, 2), (4, 4, 3), (1,) * 12, (25,), (7, 30, 2)])
def test_a_ring_buffer_keeps_the_newest_rows_in_order(sizes, rng):
    ring, added = RingBuffer(10), 0
    for size in sizes:
        ring.add(numbered(added, size), rng)
        added += size
    assert len(ring) == min(added, 10)
    newest = np.arange(max(0, added - 10), added)
    rows = ring.at(newest % 10)
    assert (rows["number"] == newest).all()
    assert (rows["pair"] == np.stack([newest, -newest], axis=1)).all()


def test_rows_are_sampled_uniformly(rng, chi_square_p):
    ring = RingBuffer(8)
    ring.add(numbered(0, 13), rng)
    drawn = ring.at(ring.draw(8000, rng))["number"]
    assert chi_square_p(np.bincount(drawn, minlength=13), np.repeat([0, 1 / 8], [5, 8])) > 0.001


@pytest.mark.parametrize("sizes", [(50,), (3,) * 16 + (2,), (20, 30)])
def test_a_reservoir_keeps_every_row_with_the_same_probability(sizes, rng, chi_square_p):
    counts = np.zeros(50, int)
    for _ in range(2000):
        reservoir, added = ReservoirBuffer(10), 0
        for size in sizes:
            reservoir.add(numbered(added, size), rng)
            added += size
        numbers = reservoir.at(np.arange(10))["number"]
        assert len(set(numbers)) == 10
        counts[numbers] += 1
    assert chi_square_p(counts, np.full(50, 1 / 50)) > 0.001


@pytest.mark.parametrize("kind", [RingBuffer, ReservoirBuffer])
@pytest.mark.parametrize("count", [0, 4, 27])
def test_a_loaded_buffer_continues_with_identical_samples(kind, count):
    one, two = kind(10), kind(10)
    two.add(numbered(70, 15), np.random.default_rng(1))
    if count:
        one.add(numbered(0, count), np.random.default_rng(2))
    two.load(one.state())
    for memory in (one, two):
        memory.add(numbered(count, 9), np.random.default_rng(3))
    assert len(one) == len(two)
    ours, theirs = one.state(), two.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind", [RingBuffer, ReservoirBuffer])
@pytest.mark.parametrize("capacity", [4, 12])
def test_the_rows_of_a_buffer_with_another_capacity_are_refused(kind, capacity, rng):
    full = kind(8)
    full.add({"x": np.arange(9)}, rng)
    other = kind(capacity)
    with pytest.raises(ValueError, match="another capacity"):
        other.load(full.state())
    assert full.state()["capacity"].shape != other.state()["capacity"].shape  # seen before training


def test_no_illegal_action_is_the_best():
    values = np.array([[3.0, 2.0, 1.0], [0.0, 5.0, 5.0]])
    legal = np.array([[False, True, True], [True, True, True]])
    assert (epsilon_greedy(values, legal, 0.0) == [[0, 1, 0], [0, 1, 0]]).all()
    assert np.allclose(
        epsilon_greedy(values, legal, 0.3), [[0, 0.85, 0.15], [0.1, 0.8, 0.1]], atol=1e-12
    )


def learner(game, rng, **changes):
    plan = replace(PLAN, **changes)
    return Dqn(game.features, initial_weights((input_size(game), 32, game.actions), rng, 0.1), plan)


@pytest.mark.parametrize(
    ("opponent", "loss"),
    # a Huber loss tends to the median return, which misleads against random play
    [("call", "squared"), ("random", "squared"), ("call", "huber")],
)
def test_q_learning_finds_the_best_response_on_kuhn(opponent, loss, rng):
    choice = job_file.GameChoice(name="kuhn")
    game, tree = two_seat_game(choice)
    theirs = cached_opponent(choice, opponent)
    one = learner(game, rng, loss=loss)

    def won():
        both = (
            best_response.sigma_of(tree, [each] * 2) for each in (one.policy(explore=False), theirs)
        )
        return exact_payoff(tree, *both)

    best = best_response_payoff(tree, best_response.sigma_of(tree, [theirs] * 2))
    assert won() < 0.9 * best
    for rng_of_batch in rng.spawn(60):
        both = (one.policy(epsilon=0.3), theirs)
        batch = play(
            game, both, 500, rng_of_batch, random_seating(500, rng_of_batch), recorded=[0]
        ).batch
        one.learn(batch, rng_of_batch)
    assert abs(won() - best) < 0.03 * best


def learn_often(one, batch, rng):
    for _ in range(10):
        one.learn(batch, rng)


def test_a_diverged_network_ends_training(rng):
    """Its greedy policy would be valid: the first legal action everywhere."""
    game = make("kuhn")
    one = learner(game, rng, learning_rate=1e30)
    both = (one.policy(epsilon=0.3), UniformPolicy())
    batch = play(game, both, 100, rng, recorded=[0]).batch
    with pytest.raises(RunError, match=r"the loss is (nan|inf) in an update of the Q-network"):
        learn_often(one, batch, rng)


def test_features_are_computed_only_for_observed_decisions(rng):
    """Also while most of the buffer is empty, and after the last decision of a game."""
    game, _ = two_seat_game(job_file.GameChoice(name="kuhn"))
    plan = replace(PLAN, replay_capacity=1_000)
    uniform = cached_opponent(job_file.GameChoice(name="kuhn"), "random")
    batch = play(game, [uniform, uniform], 30, rng).batch
    came = {tuple(row) for row in batch.observation.tolist()}

    def features(observations):
        assert {tuple(row) for row in observations.observation.tolist()} <= came
        return game.features(observations)

    learner = Dqn(features, initial_weights((input_size(game), 8, game.actions), rng, 0.1), plan)
    assert learner.learn(batch, rng)["value_loss"] > 0
    assert (0,) * len(game.observation_fields) not in came


def test_values_are_mean_returns_of_optimal_play(rng):
    """Against a caller in Kuhn a bet with the king wins 2, a pass 1; with the jack they lose as
    much."""
    game, tree = two_seat_game(job_file.GameChoice(name="kuhn"))
    one = learner(game, rng)
    caller = make_opponent("call", game, tree)
    for rng_of_batch in rng.spawn(80):
        batch = play(game, (one.policy(epsilon=1.0), caller), 500, rng_of_batch, recorded=[0]).batch
        one.learn(batch, rng_of_batch)
    rows, hands = tree.observations, game.hand(tree.observations)
    opens = (rows.seat == 0) & (rows.observation[:, -1] == 0)
    opening = [int(np.flatnonzero((hands == hand) & opens)[0]) for hand in "JK"]
    features = torch.from_numpy(game.features(tree.observations)[opening])
    with torch.inference_mode():
        values = one.values(one.adam.params, features, {}).numpy()
    # pass, bet: a caller never bets itself
    assert np.abs(values - [[-1, -2], [1, 2]]).max() < 0.1


def test_nfsp_approaches_an_equilibrium_of_kuhn(tmp_path):
    job = job_file.load("jobs/kuhn_nfsp.yaml", [], registry.JOBS)
    trainer = registry.TRAINERS["nfsp"].trainer(job, LocalPool())
    for _ in range(job.stop.iterations):
        metrics = trainer.step()
    gap = metrics["exploitability_chip/average"]
    assert gap < 0.05
    # the average policy is an opponent for others: it is stored as a network
    folder = tmp_path / "nfsp"
    model_files.save(model_files.Model(trainer.model(), "kuhn", {}), folder)
    opponent = make_opponent(f"{folder}", trainer.game, trainer.tree)
    assert (
        best_response.exploitability(
            trainer.tree, best_response.sigma_of(trainer.tree, [opponent] * 2)
        )
        == gap
    )


def test_only_best_responses_are_averaged():
    job = job_file.load(
        "jobs/kuhn_nfsp.yaml", ["nfsp.anticipatory=0", "values.replay_capacity=1000"], registry.JOBS
    )
    trainer = registry.TRAINERS["nfsp"].trainer(job, LocalPool())
    for _ in range(3):
        trainer.step()
    assert len(trainer.learner.reservoir) == 0
    assert len(trainer.learner.best.buffer) == 1000


def test_monte_carlo_targets_are_the_returns_of_the_game():
    game = make("leduc")
    batch = play(
        game, (UniformPolicy(), UniformPolicy()), 200, np.random.default_rng(0), recorded=[0]
    ).batch
    whole = Dqn(
        game.features,
        initial_weights((input_size(game), 8, game.actions), np.random.default_rng(1)),
        replace(PLAN, monte_carlo=True, gamma=0.5),
    )
    whole.learn(batch, np.random.default_rng(2))
    rows = whole.buffer.at(np.arange(len(batch)))
    assert rows["last"].all()
    assert np.allclose(rows["reward"], discounted_returns(batch, 0.5))
    assert not np.allclose(rows["reward"], batch.reward)


def linear(params, features, rows):
    return features @ params["w"]


def table_learner(rng, **changes):
    """Return a learner whose features are one-hot states: its values are a table (3, 3)."""
    first = {"w": rng.normal(size=(3, 3)).astype(np.float32)}
    return Dqn(lambda rows: np.eye(3, dtype=np.float32)[rows.observation[:, 0]], first,
               replace(PLAN, **changes), values=linear)  # fmt: skip


@pytest.mark.parametrize("double", [False, True])
def test_targets_are_the_rewards_and_discounted_values_of_legal_actions(double, rng):
    learner = table_learner(rng, double=double, gamma=0.5)
    learner.target = {"w": torch.tensor([[5.0, 1.0, 2.0], [3.0, 4.0, 9.0], [7.0, 7.5, 8.0]])}
    with torch.no_grad():  # the newest network has other best actions than the target network
        learner.adam.params["w"].copy_(
            torch.tensor([[9.0, 1.0, 0.0], [6.0, 4.0, 9.0], [1.0, 0, 0]])
        )
    legal = torch.tensor([[False, True, True], [True, True, False], [True, True, True]])
    following = {"features": torch.eye(3), "legal": legal}
    current = {"reward": torch.tensor([1.0, 2.0, 3.0]), "last": torch.tensor([False, False, True])}
    found = learner._target_values(current, following).tolist()
    assert found == ([1.5, 3.5, 3.0] if double else [2.0, 4.0, 3.0])


def test_the_target_network_is_replaced_at_its_interval(rng):
    learner = table_learner(rng, steps=7, target_update_interval=3, batch_size=4)
    steps, minimise = [], learner.adam.minimise

    def watched(loss):
        steps.append({n: v.detach().clone() for n, v in learner.adam.params.items()})
        minimise(loss)

    learner.adam.minimise = watched
    game = make("kuhn")
    batch = play(game, [UniformPolicy()] * 2, 20, rng).batch
    three = np.ones((len(batch), 3), bool)
    learner.learn(replace(batch, legal=three), rng)
    assert torch.equal(learner.target["w"], steps[6]["w"])
    learner.learn(replace(batch, legal=three), rng)
    assert torch.equal(learner.target["w"], steps[12]["w"])


def test_epsilon_falls_and_every_setting_reaches_the_learner():
    section = QLearning(epsilon=0.5, epsilon_end=0.1, learning_rate=0.01, gradient_steps=2,
                        batch_size=3, replay_capacity=4, target_update_interval=5, discount=0.6,
                        loss="huber", double_q=False)  # fmt: skip
    assert [section.epsilon_at(p) for p in (0, 0.25, 1)] == pytest.approx([0.5, 0.4, 0.1])
    assert section.config() == DqnConfig(0.01, 2, 3, 4, 5, 0.6, "huber", False, False)
    assert QLearning(monte_carlo=True).config().monte_carlo
