"""The recurrent layer of policy networks: its recursion, its scan, and a policy that remembers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import overtrick
from overtrick.core import Observations, UserError
from overtrick.learners import normalisation
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.normalisation import RunningMoments
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import rollout_sample
from overtrick.policies import recurrent_layer
from overtrick.policies.batched_networks import AssignedNetworks
from overtrick.policies.forward_pass import forward, forward_sequences, tensors
from overtrick.policies.model_kinds import check_network
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play

INPUTS, HIDDEN, SIZE = 3, 5, 4


class RecallGame:
    """Repeat, in the second step, the number that was shown in the first: -1 or 1.

    A game for one seat with a single continuous action. The payoff is minus the squared error, so
    that a player without memory gets at most -1.
    """

    name, seats, actions, infosets, unit = "recall", 1, None, None, "point"
    action_names = ("answer",)

    def deal(self, games, rng):
        return rng.choice([-1.0, 1.0], (games, 1))

    def start(self, deals):
        return SimpleNamespace(shown=deals, step=0)

    def observe(self, state):
        games = np.arange(len(state.shown) if state.step < 2 else 0)
        seen = state.shown[games] if state.step == 0 else np.zeros((len(games), 1))
        return Observations(games, np.zeros(len(games), np.int64), seen, None, None)

    def step(self, state, observations, action):
        state.step += 1
        return np.zeros_like(state.shown) if state.step == 1 else -((action - state.shown) ** 2)

    def features(self, observations):
        return observations.observation.astype(np.float32)


@pytest.fixture
def weights(rng):
    """Return random weights of a network with memory, as torch tensors."""
    layer = recurrent_layer.initial_memory(INPUTS, HIDDEN, SIZE, rng)
    shapes = {"w0": (INPUTS, HIDDEN), "b0": (HIDDEN,), "w1": (HIDDEN, 2), "b1": (2,)}
    drawn = {name: rng.normal(0, 1, shape) for name, shape in shapes.items()}
    drawn |= {name: rng.normal(0, 1, value.shape) for name, value in layer.items()}
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def test_the_memory_averages_values_by_their_gates(weights, rng):
    """Feng et al. 2024, section 3.1, written with loops."""
    x = rng.normal(size=(7, INPUTS)).astype(np.float32)
    memory = np.zeros(SIZE)
    for row in x:
        gate = 1 / (1 + np.exp(-(row @ weights["memory_gate_w"] + weights["memory_gate_b"])))
        value = row @ weights["memory_value_w"] + weights["memory_value_b"]
        memory = (1 - gate) * memory + gate * value
    first = torch.arange(7) == 0
    found = recurrent_layer.memory_of_sequences(tensors(weights), torch.as_tensor(x), first)
    assert found[-1].numpy() == pytest.approx(memory, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("lengths", [[1], [9], [1, 4, 1, 30, 2], [200, 3]])
def test_the_scan_computes_what_single_steps_compute(weights, rng, lengths):
    layer, rows = tensors(weights), sum(lengths)
    x = torch.as_tensor(rng.normal(size=(2, rows, INPUTS)).astype(np.float32))
    first = torch.zeros(2, rows, dtype=torch.bool)
    first[:, np.cumsum([0, *lengths[:-1]])] = True
    expected, memory = [], torch.zeros(2, 1, SIZE)
    for k in range(rows):
        memory = memory * ~first[:, k, None, None]
        memory = recurrent_layer.next_memory(layer, x[:, [k]], memory)
        expected.append(memory)
    found = recurrent_layer.memory_of_sequences(layer, x, first)
    assert found.numpy() == pytest.approx(torch.cat(expected, dim=1).numpy(), rel=1e-4, abs=1e-5)


def test_the_past_reaches_only_later_rows_of_its_own_sequence(weights):
    first = torch.tensor([True, False, False, True, False])
    x = torch.zeros(5, INPUTS, requires_grad=True)
    found = recurrent_layer.memory_of_sequences(tensors(weights), x, first)
    found[2].sum().backward()
    assert (x.grad.abs().sum(dim=1) > 0).tolist() == [True, True, True, False, False]


def test_a_new_memory_changes_no_output(weights, rng):
    fresh = recurrent_layer.initial_memory(INPUTS, HIDDEN, SIZE, rng)
    plain = {name: value for name, value in weights.items() if name not in fresh}
    x, first = torch.as_tensor(rng.normal(size=(1, 6, INPUTS))).float(), torch.zeros(1, 6).bool()
    one, two = (forward_sequences(tensors(each), x, first) for each in (plain, plain | fresh))
    assert torch.equal(one, two)
    steps = np.exp(-fresh["memory_gate_b"])  # (1 - z) / z, the mean age of what is remembered
    assert steps[[0, -1]] == pytest.approx([1, recurrent_layer.LONGEST_AVERAGE], rel=1e-5)


def test_a_recurrent_network_has_the_same_outputs_for_normalised_inputs(weights, rng):
    rows = (rng.normal(size=(1, 50, INPUTS)) * [20, 0.5, 3] + [9, -2, 0]).astype(np.float32)
    moments = RunningMoments(INPUTS, 0.01)
    moments.add(rows[0])
    inner = normalisation.for_normalised_inputs(weights, moments)
    first = torch.zeros(1, 50).bool()
    expected, found, back = (
        forward_sequences(tensors(each), torch.as_tensor(x), first).numpy()
        for each, x in [
            (weights, rows), (inner, moments.normalised(rows)),
            (normalisation.for_raw_inputs(inner, moments), rows),
        ]
    )  # fmt: skip
    size = np.abs(expected).max()
    assert np.abs(found - expected).max() < 1e-3 * size
    assert np.abs(back - expected).max() < 1e-3 * size


def test_an_update_recomputes_the_densities_with_which_a_recurrent_policy_acted(rng):
    """One session plays both seats, each with a memory of its own."""
    game = overtrick.make("sumo", integrator="euler", view="ahead_left")
    theta = initial_policy_weights(game, (8,), rng, 0.1, memory=4)
    theta["memory_output_w"] += rng.normal(0, 0.5, (4, 8)).astype(np.float32)
    ant = network_policy(game.features, theta)
    assert ant.remembers
    batch = play(game, [ant], 4, rng, seating=np.zeros((4, 2), int)).batch
    features, member = game.features(batch.observations()), batch.game % 2
    theta = {name: np.repeat(value[None], 2, axis=0) for name, value in theta.items()}
    sample = rollout_sample(theta, batch, features, np.zeros(len(batch)), 2, member)
    mean = np.concatenate([sample.mean[m][: (member == m).sum()] for m in range(2)])
    action, logp = (np.concatenate([v[member == m] for m in range(2)])
                    for v in (batch.action, batch.logp))  # fmt: skip
    std = np.exp(theta["log_std"][0])
    density = -(((action - mean) / std) ** 2) / 2 - np.log(std * np.sqrt(2 * np.pi))
    assert density.sum(axis=1) == pytest.approx(logp, abs=1e-4)


def test_networks_assigned_to_games_remember_their_own_games(rng):
    """Two networks beside each other act as each does alone; the noise of actions is tiny."""
    game = overtrick.make("sumo", integrator="euler", view="ahead_left")
    thetas = [initial_policy_weights(game, (8,), rng, 0.1, memory=4) for _ in range(2)]
    for theta in thetas:
        theta["memory_output_w"] += rng.normal(0, 0.5, (4, 8)).astype(np.float32)
        theta["log_std"][:] = -12
    both = {name: np.stack([theta[name] for theta in thetas]) for name in thetas[0]}
    together = AssignedNetworks(game.features, both, np.array([1, 0, 1]))
    assert together.remembers
    state = game.start(game.deal(3, rng))
    session = together.start(3, rng)
    alone = [network_policy(game.features, theta).start(3, rng) for theta in thetas]
    for _ in range(5):
        observations = game.observe(state)
        member = np.array([1, 0, 1])[observations.game]
        found = session.act(observations).action
        each = [one.act(observations).action for one in alone]
        expected = np.where(member[:, None] == 0, each[0], each[1])
        assert found == pytest.approx(expected, abs=1e-3)
        game.step(state, observations, found)


def test_a_network_with_a_recurrent_layer_is_never_evaluated_without_its_memory(weights):
    plain = {n: v for n, v in weights.items() if n not in recurrent_layer.memory_arrays(weights)}
    x = torch.zeros(2, INPUTS)
    for theta, memory in [(weights, None), (plain, torch.zeros(2, SIZE))]:
        with pytest.raises(ValueError, match="if it has a recurrent layer, and only then"):
            forward(tensors(theta), x, memory=memory)


@pytest.mark.parametrize("memory", [0, 4])
def test_only_a_network_with_memory_can_repeat_what_it_has_seen(rng, memory):
    game = RecallGame()
    learner = ActorCritic(
        game.features,
        initial_policy_weights(game, (16,), rng, 0.1, memory),
        Critic(1, (16,), rng, 0.01),
        Ppo(0.01),
        gamma=1.0,
        lam=1.0,
        minibatches=4,
        inputs=RunningMoments(1, 0.1),
    )
    for _ in range(60):
        learner.learn(play(game, [learner.policy()], 128, rng).batch, rng)
    learner.theta["log_std"][:] = -9
    payoff = play(game, [learner.policy()], 500, rng).payoff.mean()
    assert payoff > -0.1 if memory else payoff < -0.9


def test_a_damaged_memory_is_refused(rng):
    game = overtrick.make("sumo")
    theta = initial_policy_weights(game, (8,), rng, 0.1, memory=4)
    check_network(theta, game, "ant")
    for name in recurrent_layer.memory_arrays(theta):
        for broken in (
            {n: v for n, v in theta.items() if n != name},
            {**theta, name: theta[name][:-1]},
        ):
            with pytest.raises(UserError, match="ant is damaged: the arrays of its memory"):
                check_network(broken, game, "ant")
    kuhn = overtrick.make("kuhn")
    plain = initial_policy_weights(kuhn, (8,), rng)
    memory = recurrent_layer.initial_memory(len(plain["w0"]), 8, 4, rng)
    with pytest.raises(UserError, match="recurrent layer, but the actions of kuhn are discrete"):
        check_network(plain | memory, kuhn, "network")
    with pytest.raises(UserError, match=r"other layers than w0, b0"):
        check_network(plain | {"": plain["b0"]}, kuhn, "network")
    with pytest.raises(UserError, match="finite"):
        check_network({**theta, "memory_gate_b": np.full(4, np.nan, np.float32)}, game, "ant")
