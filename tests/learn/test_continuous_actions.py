"""Learning with real-valued actions: distributions beside torch's, and a target game."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.rounding import assert_float32_close
from torch.distributions import Independent, Normal, kl_divergence

from overtrick.config import job_file
from overtrick.core import Observations, RunError
from overtrick.distributed.workers import LocalPool
from overtrick.games.sumo.physics import Physics
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.normalisation import (
    RunningMoments,
    for_normalised_inputs,
    for_raw_inputs,
)
from overtrick.learners.policy_gradient import maml
from overtrick.learners.policy_gradient.actor_critic import POLICY_OPTIMIZERS, ActorCritic
from overtrick.learners.policy_gradient.sample import join_samples, rollout_sample, sample_tensors
from overtrick.learners.policy_gradient.surrogate import Surrogate, policy_gradient_loss
from overtrick.learners.weights import repeat
from overtrick.policies.action_sampling import sample_gaussian_actions
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import LOG_STD, tensors
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play
from overtrick.training.adaptation.gradient_samples import adapt, network_policies, play_opponents
from overtrick.training.registry import JOBS, TRAINERS

ALONE = [0.7, -0.3]
STEPS = {"trpo": 0.02, "ppo": 0.01}


@dataclass
class TargetState:
    """Games of Target in progress."""

    target: np.ndarray  # (G, 2) target
    over: np.ndarray  # (G,) bool, finished


class Target:
    """Game in which each seat throws once at a target and loses the square of its distance. shown:
    the target is observed and drawn for each game; otherwise it is ALONE."""

    name, seats, unit, actions, infosets = "target", 2, "point", None, None
    action_names, observation_fields = ("x", "y"), ("x", "y")

    def __init__(self, shown=True):
        self.shown = shown

    def deal(self, games, rng):
        return rng.uniform(-1, 1, (games, 2)) if self.shown else np.tile(ALONE, (games, 1))

    def start(self, deals):
        return TargetState(deals, np.zeros(len(deals), bool))

    def observe(self, state):
        games = np.repeat(np.flatnonzero(~state.over), 2)
        seat = np.tile([0, 1], len(games) // 2)
        return Observations(games, seat, state.target[games], None, None)

    def step(self, state, observations, action):
        points = np.zeros((len(state.over), 2))
        points[observations.game, observations.seat] = -np.square(
            action - state.target[observations.game]
        ).sum(axis=1)
        state.over[observations.game] = True
        return points

    def features(self, observations):
        return observations.observation.astype(np.float32)


def random_networks(game, members, rng, hidden=(8,)):
    """Return random networks with different standard deviations."""
    each = [initial_policy_weights(game, hidden, rng) for _ in range(members)]
    weights = {n: np.stack([w[n] for w in each]) for n in each[0]}
    weights[LOG_STD] = rng.normal(-0.5, 0.3, weights[LOG_STD].shape).astype(np.float32)
    return weights


def sample_of(game, weights, rng, games=40):
    """Return the decisions of members in some games as a policy-gradient sample."""
    members = len(weights[LOG_STD])
    policies = (BatchedNetworks(game.features, weights), BatchedNetworks(game.features, weights))
    batch = play(game, policies, members * games, rng, recorded=[0]).batch
    features = game.features(batch.observations())
    advantage = rng.normal(size=len(batch))
    return rollout_sample(weights, batch, features, advantage, games, batch.game // games), batch


def distribution(output):
    mean, log_std = output.chunk(2, dim=-1)
    return Independent(Normal(mean, log_std.exp()), 1)


def test_the_sampling_policy_has_ratio_1_and_divergence_0(rng):
    game = Target()
    weights = random_networks(game, 3, rng)
    sample, batch = sample_of(game, weights, rng)
    tensor = sample_tensors(sample)
    output = tensor.output(tensors(weights))
    size = np.abs(batch.logp).max()
    assert_float32_close(tensor.ratio(output).detach(), np.ones((3, 40)), size)
    assert tensor.divergence(output).abs().max() < 1e-6
    density = distribution(output).log_prob(tensor.action)
    assert_float32_close(density.detach().numpy().ravel(), batch.logp)


def test_ratio_divergence_and_entropy_equal_those_of_torch(rng):
    game = Target()
    old, new = random_networks(game, 3, rng), random_networks(game, 3, rng)
    tensor = sample_tensors(sample_of(game, old, rng)[0])
    before, after = (distribution(tensor.output(tensors(w))) for w in (old, new))
    output = tensor.output(tensors(new))
    ratio = (after.log_prob(tensor.action) - before.log_prob(tensor.action)).exp()
    assert torch.allclose(tensor.ratio(output), ratio, rtol=1e-3)
    assert_float32_close(tensor.divergence(output).detach(), kl_divergence(before, after).detach())
    assert_float32_close(tensor.entropy(output).detach(), after.entropy().detach())


def test_clipped_actions_have_ratios_and_divergences_of_their_own(rng):
    game = Target()
    old, new = random_networks(game, 3, rng), random_networks(game, 3, rng)
    sample = sample_of(game, old, rng)[0]
    plain, clipped = sample_tensors(sample), sample_tensors(sample, clipped_action_gradient=True)
    same, output = (plain.output(tensors(w)) for w in (old, new))
    assert_float32_close(clipped.ratio(same).detach(), np.ones((3, 40)), 1)
    assert clipped.divergence(same).abs().max() < 1e-6
    inside = (plain.action.abs() < 1).all(dim=-1)
    assert 0 < inside.sum() < inside.numel()
    assert torch.allclose(clipped.ratio(output)[inside], plain.ratio(output)[inside], rtol=1e-3)
    assert not torch.allclose(clipped.ratio(output)[~inside], plain.ratio(output)[~inside])
    assert (clipped.divergence(output) < plain.divergence(output)).all()  # clipping hides changes


def test_samples_concatenate_and_subsample_like_those_of_discrete_actions(rng):
    game = Target()
    weights = random_networks(game, 3, rng)
    many, few = sample_of(game, weights, rng, 40)[0], sample_of(game, weights, rng, 25)[0]
    both = join_samples([many, few])
    assert both.action.shape == (6, 40, 2)
    assert not both.weight[3:, 25:].any()
    thin = sample_tensors(both).every(2)
    assert torch.equal(thin.mean, torch.from_numpy(both.mean[::2]))
    new = random_networks(game, 6, rng)
    whole, parts = (
        [policy_gradient_loss(tensors(w), sample_tensors(s)) for w, s in pairs]
        for pairs in (
            [(new, both)],
            [({n: v[:3] for n, v in new.items()}, many), ({n: v[3:] for n, v in new.items()}, few)],
        )
    )
    assert float(sum(whole)) == pytest.approx(float(sum(parts)), rel=1e-4)


@pytest.mark.parametrize("solver", POLICY_OPTIMIZERS)
def test_every_optimiser_learns_to_hit_an_observed_target(solver):
    """The remaining standard deviation costs little."""
    rng = np.random.default_rng(0)
    game = Target()
    learner = ActorCritic(
        game.features, initial_policy_weights(game, (32,), rng), Critic(2, (32,), rng, 0.01),
        POLICY_OPTIMIZERS[solver](STEPS[solver], 0.0), 1.0, 1.0,
    )  # fmt: skip
    for _ in range(80):
        both = learner.policy(), learner.policy()
        learner.learn(play(game, both, 300, rng, recorded=[0]).batch, rng)
    batch = play(game, (learner.policy(), learner.policy()), 2_000, rng, recorded=[0]).batch
    assert batch.reward.mean() > -0.05  # it is -1.2 before training
    assert np.exp(learner.theta[LOG_STD]).max() < 0.2


def test_an_inner_step_moves_each_member_by_its_own_games(rng):
    game = Target(shown=False)
    weights = repeat(initial_policy_weights(game, (8,), rng), 2)
    critic = {"w0": np.zeros((2, 1), np.float32), "b0": np.full(1, -0.8, np.float32)}
    results = play_opponents(
        game, weights, critic, BatchedNetworks(game.features, weights), 4_000, 1.0, 1.0, rng
    )
    after = adapt(weights, results.sample, 0.2)
    for policy in network_policies(game, after):
        throws = policy.start(1, rng).act(
            Observations(
                np.zeros(4_000, int), np.zeros(4_000, int), np.tile(ALONE, (4_000, 1)), None, None
            )
        )
        assert np.linalg.norm(throws.action.mean(axis=0) - ALONE) < 0.6  # 0.76 before the step


def test_with_normalised_inputs_an_inner_step_does_not_depend_on_their_units():
    """The same networks as functions of the target, which they observe in two units."""
    scale, shift = np.array([20.0, 0.5], np.float32), np.array([100.0, -2.0], np.float32)

    class OtherUnits(Target):
        def features(self, observations):
            return super().features(observations) * scale + shift

    units, plain = RunningMoments(2, 0.01), RunningMoments(2, 0.01)
    units.add(shift + scale * np.array([[1.0], [-1.0]]))  # mean `shift`, deviation `scale`
    weights = random_networks(Target(), 2, np.random.default_rng(0))
    converted = for_raw_inputs(weights, units)
    critic = {"w0": np.zeros((2, 1), np.float32), "b0": np.full(1, -0.8, np.float32)}

    def step(game, params, inputs):
        opponents = BatchedNetworks(game.features, params)
        rollouts = play_opponents(
            game, params, critic, opponents, 200, 1.0, 1.0, np.random.default_rng(1), inputs=inputs
        )
        return adapt(params, rollouts.sample, 0.05, inputs)

    expected = step(Target(), weights, plain)
    found, raw = (
        for_normalised_inputs(step(OtherUnits(), converted, inputs), units)
        for inputs in (units, None)
    )
    size = max(float(np.abs(expected[n] - weights[n]).max()) for n in weights)
    assert size > 0.01
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-2 * size)
    assert not all(raw[n] == pytest.approx(v, abs=0.1 * size) for n, v in expected.items())


def test_nan_actions_are_refused_with_one_line(rng):
    for mean, log_std in ((np.nan, 0.0), (0.0, np.nan), (0.0, 90.0), (0.0, -np.inf)):
        with pytest.raises(RunError, match="a policy has diverged"):
            sample_gaussian_actions(np.full((1, 2), mean), np.full((1, 2), log_std), rng)


def test_the_meta_gradient_of_real_actions_equals_finite_differences(rng):
    """Second order, in double precision."""
    game = Target()
    theta = {n: v.astype(np.float64) for n, v in initial_policy_weights(game, (4,), rng).items()}
    start = {n: v.astype(np.float32) for n, v in repeat(theta, 2).items()}
    inner, outer = (sample_tensors(sample_of(game, start, rng)[0]) for _ in range(2))
    precise = [
        type(s)(*(getattr(s, n).double() for n in s.__dataclass_fields__)) for s in (inner, outer)
    ]
    surrogate: Surrogate = maml.meta_surrogate(precise[:1], precise[1], 0.1, second_order=True)
    leaves = {n: torch.tensor(v, requires_grad=True) for n, v in theta.items()}
    gain = surrogate.gain(surrogate.policy(leaves))
    slopes = dict(zip(leaves, torch.autograd.grad(gain, list(leaves.values())), strict=True))
    for name in (LOG_STD, "w1", "b0"):
        moved = []
        for way in (1e-5, -1e-5):
            perturbed = {n: torch.tensor(v) for n, v in theta.items()}
            perturbed[name].view(-1)[0] += way
            perturbed = {n: v.requires_grad_() for n, v in perturbed.items()}
            moved.append(float(surrogate.gain(surrogate.policy(perturbed)).detach()))
        slope = (moved[0] - moved[1]) / 2e-5
        assert float(slopes[name].view(-1)[0]) == pytest.approx(slope, rel=1e-4, abs=1e-7)


TRAINED = {
    "meta": {
        "meta": {"hidden": [4], "tasks": 2, "games": 1, "outer_games": 3, "solver": "ppo",
                 "inner_steps": 1},
        "population": {"size": 2, "fitness_games": 1},
    },
    "exploit": {"exploit": {"hidden": [4], "games": 8, "eval_interval": 9}},
}  # fmt: skip


@pytest.mark.parametrize("kind", TRAINED)
def test_diverged_matches_are_counted_and_training_continues(kind, monkeypatch, caplog):
    """All matches of one iteration diverge as soon as an ant falls; none of the next."""
    reward = {"win": 1, "lose": -1, "draw": -1, "move": 0, "push": 0, "control": 0}
    game = {"name": "sumo", "integrator": "euler", "reward": reward}
    job = {"trainer": kind, "game": game, "stop": {"iterations": 3}, **TRAINED[kind]}
    trainer = TRAINERS[kind].trainer(job_file.parse(job, JOBS, "a test"), LocalPool())
    right = Physics.advance

    def diverge(physics, bodies, control):
        now = right(physics, bodies, control)
        if control is not None:  # a start is not a step
            now.velocity[bodies.position[:, 2] < 1.25] = np.nan
        return now

    before = trainer.model()
    monkeypatch.setattr(Physics, "advance", diverge)
    metrics = trainer.step()
    assert metrics["diverged_games"] == 8
    if kind == "meta":
        assert metrics["decisions"] >= 2 * 8  # two ants decide in each step
    assert "the simulation of 8 games diverged: they count as draws" in caplog.text
    monkeypatch.undo()
    assert trainer.step()["diverged_games"] == 0
    after = trainer.model()
    assert all(np.isfinite(weights).all() for weights in after.values())
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_one_network_equals_a_batch_of_one(rng):
    game = Target()
    weights = {n: v[0] for n, v in random_networks(game, 1, rng).items()}
    observations = game.observe(game.start(game.deal(6, rng)))
    one = (
        network_policy(game.features, weights).start(6, np.random.default_rng(1)).act(observations)
    )
    many = (
        BatchedNetworks(game.features, repeat(weights, 1))
        .start(6, np.random.default_rng(1))
        .act(observations)
    )
    assert np.array_equal(one.action, many.action)
    assert np.isfinite(one.logp).all()
