"""Policy gradient: learners find exact answers on small games, and gradients equal finite
differences."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.rounding import assert_float32_close

from overtrick import make
from overtrick.config.job_file import GameChoice
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.games.registry import scripted_players
from overtrick.learners.critic import Critic, predict
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient import maml
from overtrick.learners.policy_gradient.actor_critic import POLICY_OPTIMIZERS, ActorCritic
from overtrick.learners.policy_gradient.advantages import generalised_advantages
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import (
    DiscreteTensors,
    discrete_sample,
    join_samples,
    sample_tensors,
)
from overtrick.learners.policy_gradient.surrogate import Surrogate, policy_gradient_loss
from overtrick.learners.policy_gradient.trpo import Trpo, conjugate_gradient
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import forward, tensors
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size, privileged_input_size
from overtrick.policies.rollout import play, random_seating
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive.tree import build
from overtrick.storage import model_files
from overtrick.training.adaptation.gradient_samples import (
    exact_sample,
    play_opponents,
    play_opponents_on_tree,
    strategies,
)
from overtrick.training.exploit import Exploit, ExploitJob, ExploitTrainer

STEPS = {"ppo": {"learning_rate": 0.01}, "trpo": {}}
"""For each optimiser a step size with which it learns these small games in 60 iterations."""


def trainer(game, opponent, solver, seed=0, games=500, **more):
    plan = Exploit(
        opponent=opponent,
        solver=solver,
        hidden=(32,),
        games=games,
        **STEPS[solver],
        **more,
    )
    job = ExploitJob(trainer="exploit", game=game, seed=seed, exploit=plan)
    return ExploitTrainer(job, LocalPool())


def trained(*args, iterations=60, **more):
    """Return the payoffs of a new trainer's iterations, and the best-response value."""
    one = trainer(*args, **more)
    name = f"{args[1]}/after_0_{one.game.unit}"
    won = [one.step()[name] for _ in range(iterations)]
    (row,) = ExploitTrainer.evaluate_model(one.job, one.model(), one.pool, np.random.default_rng(0))
    assert row["steps"] == [won[-1]]
    return won, row["best_response"]


def exact(game):
    """Return a game with features in double precision, for finite differences."""
    return SimpleNamespace(
        features=lambda observations: game.features(observations).astype(np.float64)
    )


def precise(weights):
    return {name: value.astype(np.float64) for name, value in weights.items()}


def network(game, tree, rng, hidden=(8,)):
    return initial_weights((game.features(tree.observations).shape[1], *hidden, game.actions), rng)


def exact_tensors(*args):
    """Return an exact sample in the form in which trainers pass it to an optimiser."""
    return sample_tensors(join_samples([exact_sample(*args)]))


def doubled(sample):
    """Return a sample in double precision."""
    return DiscreteTensors(
        sample.features.double(),
        sample.legal,
        sample.logp.double(),
        sample.credit.double(),
        sample.weight.double(),
    )


def some_entries(weights, rng, count=6):
    """Choose a few indices in each array of a network."""
    for name, value in weights.items():
        for flat in rng.choice(value.size, min(count, value.size), replace=False):
            yield name, np.unravel_index(flat, value.shape)


def slope(function, weights, name, place, small=1e-5):
    """Return the central difference of a function of weights at one entry."""
    ends = []
    for sign in (-1, 1):
        moved = {n: v.copy() for n, v in weights.items()}
        moved[name][place] += sign * small
        ends.append(function(moved))
    return (ends[1] - ends[0]) / (2 * small)


def test_every_optimiser_is_tested_here():
    assert set(STEPS) == set(POLICY_OPTIMIZERS)


@pytest.mark.parametrize("solver", POLICY_OPTIMIZERS)
@pytest.mark.parametrize("opponent", ["call", "random"])
def test_every_optimiser_finds_the_best_response_on_kuhn(solver, opponent):
    won, best = trained("kuhn", opponent, solver)
    assert won[0] < 0.5 * best
    assert won[-1] <= best + 1e-6
    assert won[-1] > 0.97 * best


@pytest.mark.parametrize(
    "more", [{"minibatches": 10}, {"gradient_estimator": "privileged_critic"}], ids=str
)
def test_ppo_finds_it_with_minibatches_and_with_a_privileged_critic(more):
    """One gradient step for each minibatch of every epoch; the inputs of the critic have the
    expected size."""
    passes = more.get("minibatches", 1)
    one = trainer("kuhn", "random", "ppo", **more)
    one.step()
    steps = {float(v) for n, v in one.learner.optimizer.state().items() if n.startswith("step.")}
    assert steps <= {float(k * passes) for k in range(1, 9)}
    inputs = (
        privileged_input_size(one.game) if "gradient_estimator" in more else input_size(one.game)
    )
    assert len(one.learner.critic.weights["w0"]) == inputs
    won, best = trained("kuhn", "random", "ppo", iterations=40, **more)
    assert won[0] < 0.5 * best
    assert 0.97 * best < won[-1] <= best + 1e-6


def test_a_minibatch_without_decisions_does_no_harm():
    """The opponent may end all games of a minibatch before the learner's first decision."""
    one = trainer("leduc", "random", "ppo", games=40, minibatches=40)
    for _ in range(2):
        one.step()
    assert all(np.isfinite(v).all() for v in one.model().values())


@pytest.mark.parametrize("solver", POLICY_OPTIMIZERS)
@pytest.mark.parametrize(
    ("mixture", "reply", "best"),
    # mean payoff of a response: rock 0, -25, 50; paper 25, 0, -5; scissors -50, 5, 0
    [((0.5, 0.25, 0.25), "paper", 11.25), ((0.25, 0.25, 0.5), "rock", 18.75)],
)
def test_every_optimiser_finds_the_best_response_to_a_biased_player(
    tmp_path, solver, mixture, reply, best
):
    """The opponent is a stored model: a network whose inputs do not matter."""
    weights = {
        "policy.w0": np.zeros((2, 3), np.float32),
        "policy.b0": np.log(np.array(mixture)).astype(np.float32),
    }
    folder = tmp_path / "opponent"
    model_files.save(model_files.Model(weights, "brps", {}), folder)
    one = trainer("brps", str(folder), solver)
    for _ in range(60):
        one.step()
    (row,) = ExploitTrainer.evaluate_model(one.job, one.model(), one.pool, np.random.default_rng(0))
    assert abs(row["best_response"] - best) < 1e-5
    assert row["share"] > 0.97
    played = one.learner.policy().probs(build(one.game).observations)
    assert (played[:, one.game.action_names.index(reply)] > 0.97).all()


@pytest.mark.parametrize("solver", POLICY_OPTIMIZERS)
def test_a_loaded_trainer_continues_with_identical_results(solver):
    one, two = (trainer("kuhn", "random", solver, games=100) for _ in range(2))
    for _ in range(3):
        one.step()
    two.load(one.state())
    assert two.step() == one.step()
    ours, theirs = one.state(), two.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("bound", [0.003, 0.03])
def test_trpo_keeps_its_bound_on_the_divergence(bound):
    one = trainer("leduc", "random", "trpo", games=100)
    one.learner.optimizer.step_size = bound
    for _ in range(8):
        before = one.learner.policy()
        metrics = one.step()
        assert 0 <= metrics["kl"] <= bound
        assert metrics["step_taken"] > 0
        # the same divergence from the policies themselves, on games of the old policy
        observations = play(
            one.game, [before, UniformPolicy()], 2000, np.random.default_rng(0), recorded=[0]
        )
        observations = observations.batch.observations()
        p, q = before.probs(observations), one.learner.policy().probs(observations)
        gap = p * np.log(np.divide(p, q, out=np.ones_like(p), where=observations.legal))
        assert gap.sum(axis=1).mean() < 2 * bound


@pytest.mark.parametrize("bound", [0.01, 0.1, 1.0])
def test_trpo_shortens_a_step_that_goes_too_far(game_and_tree, rng, bound):
    game, tree = game_and_tree("kuhn")
    theta = network(game, tree, rng)
    sample = exact_tensors(game, tree, repeat(theta, 1), tree.uniform()[None])
    surrogate = Surrogate(sample, lambda t: sample.output({n: v[None] for n, v in t.items()}))
    better, metrics = Trpo(bound, damping=1e-4).improve(tensors(theta), surrogate, rng)
    assert metrics["kl"] <= bound
    assert metrics["gain"] > 0
    assert abs(float(surrogate.divergence(surrogate.policy(better))) - metrics["kl"]) < 1e-6
    assert (metrics["step_taken"] < 1) == (bound > 0.05)


@pytest.mark.parametrize("make", [lambda: Trpo(0.1, 1.0), lambda: Ppo(0.01, entropy_coef=1.0)])
def test_the_metric_of_gain_leaves_the_entropy_bonus_out(game_and_tree, rng, make):
    game, tree = game_and_tree("kuhn")
    theta = network(game, tree, rng)
    sample = exact_tensors(game, tree, repeat(theta, 1), tree.uniform()[None])
    surrogate = Surrogate(sample, lambda t: sample.output({n: v[None] for n, v in t.items()}))
    better, metrics = make().improve(tensors(theta), surrogate, rng)
    before, after = (surrogate.policy(weights) for weights in (tensors(theta), better))
    gained = float(surrogate.gain(after) - surrogate.gain(before))
    assert metrics["gain"] == pytest.approx(gained, abs=1e-6)
    bonus = float(surrogate.entropy(after) - surrogate.entropy(before))
    assert abs(bonus) > 1e-3


@pytest.mark.parametrize(
    ("game", "more"),
    [
        ("kuhn", {"gradient_estimator": "privileged_critic", "normalise": True}),
        (
            {"name": "sumo", "integrator": "euler"},
            {"clipped_action_gradient": True, "action_std": 0.3, "minibatches": 3},
        ),
    ],
)
def test_the_estimated_gain_on_the_games_of_an_update_is_the_metric_gain(rng, game, more):
    one = trainer(game, "random", "ppo", **more)
    learner, privileged = one.learner, "gradient_estimator" in more
    policies = (learner.policy(), learner.policy())
    batch = play(one.game, policies, 5, rng, recorded=[0], privileged=privileged).batch
    before = copy.deepcopy(learner)
    metrics = learner.learn(batch, rng)
    assert metrics["gain"] > 0.01
    assert before.estimated_gain(batch, learner.theta) == pytest.approx(metrics["gain"], rel=1e-3)


def test_the_estimated_gain_on_fresh_games_is_nearly_the_difference_of_exact_payoffs(rng):
    one = trainer("kuhn", "random", "ppo", gae_lambda=1.0)
    game, tree, before = one.game, one.tree, copy.deepcopy(one.learner)

    def games(count):
        policies, seating = (before.policy(), UniformPolicy()), random_seating(count, rng)
        return play(game, policies, count, rng, seating, recorded=[0]).batch

    one.learner.optimizer.step_size = 0.001
    one.learner.learn(games(20_000), rng)
    payoffs = [
        exact_payoff(tree, strategies(game, tree, repeat(each.theta, 1))[0], tree.uniform())
        for each in (before, one.learner)
    ]
    gain = before.estimated_gain(games(200_000), one.learner.theta)
    assert payoffs[1] - payoffs[0] > 0.01
    assert gain == pytest.approx(payoffs[1] - payoffs[0], rel=0.05)


def test_trpo_stays_at_an_optimum(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    theta = network(game, tree, rng)
    sample = exact_tensors(game, tree, repeat(theta, 1), tree.uniform()[None])
    idle = DiscreteTensors(
        sample.features, sample.legal, sample.logp, torch.zeros_like(sample.credit), sample.weight
    )
    surrogate = Surrogate(idle, lambda t: idle.output({n: v[None] for n, v in t.items()}))
    kept, metrics = Trpo(0.01).improve(tensors(theta), surrogate, rng)
    assert all(torch.equal(kept[name], torch.tensor(theta[name])) for name in theta)
    assert metrics == {"kl": 0.0, "gain": 0.0, "step_taken": 0.0}


class NarrowPeak:
    """Surrogate of one weight x: the objective x - width x^2 rises only below 1 / width, and the
    divergence x^2 / 2 is within its bound far beyond."""

    fisher_subsample = None

    def __init__(self, width):
        self.width = width

    def policy(self, params):
        return params["x"]

    def gain(self, x):
        return (x - self.width * x.square()).sum()

    def divergence(self, x):
        return x.square().sum() / 2

    def entropy(self, x):
        return 0 * x.sum()


@pytest.mark.parametrize(("width", "accepted"), [(0.1, 1.0), (1.1, 0.8), (1000.0, 0.0)])
def test_trpo_accepts_no_step_that_loses(width, accepted, rng):
    start = {"x": torch.zeros(1)}
    found, metrics = Trpo(0.5, damping=0.0).improve(start, NarrowPeak(width), rng)
    assert metrics["step_taken"] == pytest.approx(accepted)  # the full step is 1
    assert found["x"].item() == pytest.approx(accepted)
    assert metrics["gain"] == pytest.approx(accepted - width * accepted**2)


@pytest.mark.parametrize("make", [lambda: Trpo(0.02), lambda: Ppo(0.01)], ids=["trpo", "ppo"])
def test_a_step_on_exact_advantages_increases_the_payoff(game_and_tree, rng, make):
    game, tree = game_and_tree("kuhn")
    theta = network(game, tree, rng)
    theirs = tree.uniform()
    sample = exact_tensors(game, tree, repeat(theta, 1), theirs[None])
    surrogate = Surrogate(sample, lambda t: sample.output({n: v[None] for n, v in t.items()}))
    better, metrics = make().improve(tensors(theta), surrogate, rng)

    def payoff(weights):
        (mine,) = strategies(game, tree, repeat(weights, 1))
        return exact_payoff(tree, mine, theirs)

    gained = payoff({name: value.numpy() for name, value in better.items()}) - payoff(theta)
    assert gained > 0.005
    assert abs(gained - metrics["gain"]) < 0.3 * gained  # the surrogate is of first order


def test_a_surrogate_is_zero_at_the_sampling_policy(game_and_tree, rng):
    game, tree = game_and_tree("leduc")
    params = {name: np.stack([v, v]) for name, v in network(game, tree, rng).items()}
    opponents = np.stack([tree.uniform(), tree.uniform()])
    sample = exact_tensors(game, tree, params, opponents)
    logp = sample.output(tensors(params))
    surrogate = Surrogate(sample, sample.output)
    assert abs(float(surrogate.divergence(logp))) < 1e-6
    assert_float32_close(sample.ratio(logp), np.ones(logp.shape))
    # advantages have mean 0 under the policy itself
    assert abs(float(surrogate.gain(logp))) < 1e-5


def test_the_entropy_of_uniform_play_is_the_logarithm_of_the_number_of_actions(game_and_tree):
    game, tree = game_and_tree("leduc")
    input_size = game.features(tree.observations).shape[1]
    even = {
        "w0": np.zeros((1, input_size, game.actions), np.float32),
        "b0": np.zeros((1, game.actions), np.float32),
    }
    sample = exact_tensors(game, tree, even, tree.uniform()[None])
    entropy = Surrogate(sample, None).entropy(sample.output(tensors(even)))
    nats = np.log(tree.legal.sum(axis=1))
    weight = sample.weight[0].numpy()
    assert abs(float(entropy) - (weight * nats).sum() / weight.sum()) < 1e-6


def test_conjugate_gradient_solves_a_positive_definite_system(rng):
    root = rng.normal(size=(8, 8))
    matrix = torch.from_numpy(root @ root.T + 0.1 * np.eye(8))
    b = torch.from_numpy(rng.normal(size=8))
    x = conjugate_gradient(lambda v: matrix @ v, b, 40)
    assert torch.allclose(matrix @ x, b, atol=1e-7)
    assert torch.allclose(x, torch.linalg.solve(matrix, b), atol=1e-6)


def test_conjugate_gradient_needs_one_step_on_the_identity():
    b = torch.tensor([3.0, -4.0])
    assert torch.allclose(conjugate_gradient(lambda v: 2 * v, b, 1), b / 2)
    assert not conjugate_gradient(lambda v: v, torch.zeros(3), 5).any()


def descend(adam, times):
    """Take some Adam steps towards the point (1, 2, 3)."""
    for _ in range(times):
        adam.minimise((adam.params["w"] - torch.tensor([1.0, 2.0, 3.0])).square().sum())


def adam_of(start):
    return Adam({"w": np.array(start, np.float32)}, 0.1)


@pytest.mark.parametrize("before", [0, 4])
@pytest.mark.parametrize("saved", [0, 5])
def test_adam_resumes_from_its_state(before, saved):
    """Whatever steps it took before loading."""
    one, two = adam_of([0, 0, 0]), adam_of([9, 9, 9])
    descend(one, saved)
    descend(two, before)
    two.load(one.state())
    descend(one, 5)
    descend(two, 5)
    for name, kept in one.state().items():
        assert np.array_equal(kept, two.state()[name]), name


def test_the_state_of_adam_is_a_copy():
    adam = adam_of([0, 0, 0])
    descend(adam, 1)
    state = adam.state()
    kept = {name: value.copy() for name, value in state.items()}
    descend(adam, 3)
    assert all(np.array_equal(kept[name], state[name]) for name in kept)
    # Kingma and Ba: the first step is the learning rate, against the sign of the gradient
    assert np.allclose(kept["w"], [0.1, 0.1, 0.1], atol=1e-6)


@pytest.mark.parametrize("name", ["kuhn", "leduc", "brps"])
def test_the_policy_gradient_of_an_exact_sample_is_the_slope_of_the_exact_payoff(
    game_and_tree, rng, name, random_strategy
):
    game, tree = game_and_tree(name)
    weights = precise(network(game, tree, rng))
    opponent = random_strategy(tree, rng)
    sample = exact_tensors(exact(game), tree, repeat(weights, 1), opponent[None])
    params = {n: v.requires_grad_() for n, v in tensors(repeat(weights, 1)).items()}
    loss = policy_gradient_loss(params, sample)
    gradients = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))

    def payoff(moved):
        (mine,) = strategies(exact(game), tree, repeat(moved, 1))
        return exact_payoff(tree, mine, opponent)

    scale = max(float(g.abs().max()) for g in gradients.values())
    for entry, place in some_entries(weights, rng):
        ours = -float(gradients[entry][(0, *place)])
        assert abs(ours - slope(payoff, weights, entry, place)) < 1e-6 * max(scale, 1)


@pytest.mark.parametrize("with_privilege", [False, True])
def test_the_policy_gradient_of_sampled_games_is_unbiased(game_and_tree, rng, with_privilege):
    """Equal members play their own games; the mean of their gradients is compared with the exact
    gradient."""
    game, tree = game_and_tree("kuhn")
    members, games = 60, 100
    theta = network(game, tree, rng)
    critic = initial_weights(
        (privileged_input_size(game) if with_privilege else input_size(game), 4, 1), rng
    )
    many = repeat(theta, members)
    results = play_opponents(
        game, many, critic, UniformPolicy(), games, 1.0, 1.0, rng, privileged=with_privilege
    )
    head = "b1"

    def gradient(params, sample):
        leaves = {n: v.requires_grad_() for n, v in tensors(params).items()}
        loss = policy_gradient_loss(leaves, sample)
        return torch.autograd.grad(loss, leaves[head])[0].double().numpy()

    sampled = gradient(many, sample_tensors(results.sample))
    sure = gradient(
        repeat(theta, 1), exact_tensors(game, tree, repeat(theta, 1), tree.uniform()[None])
    )
    error = sampled.std(axis=0, ddof=1) / np.sqrt(members)
    assert (np.abs(sampled.mean(axis=0) - sure[0]) < 5 * error).all()
    assert (np.abs(sure[0]) > 5 * error).all()  # and the gradient is not zero
    # so is the payoff
    (mine,) = strategies(game, tree, repeat(theta, 1))
    gap = results.payoff.mean() - exact_payoff(tree, mine, tree.uniform())
    assert abs(gap) < 5 * results.payoff.std(ddof=1) / np.sqrt(members)


def test_only_the_opponents_actions_are_counted(game_and_tree, rng):
    """The networks bet in Kuhn poker, their opponents never: no bet is counted."""
    game, tree = game_and_tree("kuhn")
    never_bets = np.zeros((2, *tree.legal.shape))
    never_bets[:, :, 0] = 1
    before = np.ones_like(never_bets)
    params = {n: np.stack([v] * 2) for n, v in network(game, tree, rng).items()}
    choice = GameChoice(name="kuhn")
    played = play_opponents_on_tree(choice, params, never_bets, 200, "aivat", rng, before)
    assert strategies(game, tree, params)[:, :, 1].min() > 0.1
    assert (played.opponent_counts[:, :, 1] == 1).all()
    # an opponent in seat 0 passes at least once in a game, one in seat 1 exactly once
    assert (played.opponent_counts[:, :, 0].sum(axis=1) - tree.infosets >= 200).all()


def test_a_privileged_critic_reduces_the_variance(rng):
    """Both critics learn from the same games of hold'em, and are evaluated on new ones."""
    game = make("holdem")
    caller = scripted_players(game)["call"](game)
    theta = initial_weights((input_size(game), 16, game.actions), rng)
    left = {}
    for with_privilege in (False, True):
        wide = privileged_input_size(game) if with_privilege else input_size(game)
        critic = Critic(wide, (32,), np.random.default_rng(1), 0.003)
        for rng_of_batch in np.random.default_rng(2).spawn(8):
            ours = (game, repeat(theta, 1), critic.weights, caller, 1000, 1.0, 1.0, rng_of_batch)
            results = play_opponents(*ours, privileged=with_privilege)
            left[with_privilege] = np.square(
                results.returns - predict(critic.weights, results.features)
            ).mean()
            critic.fit(results.features, results.returns, rng_of_batch)
    assert left[True] < 0.75 * left[False]


@pytest.mark.parametrize("with_privilege", [False, True])
def test_a_game_in_which_the_learner_does_not_act_gives_an_empty_sample(
    game_and_tree, rng, with_privilege
):
    """The opponent folds at once."""
    game, tree = game_and_tree("leduc")
    fold = game.action_names.index("fold")
    chosen = np.where(tree.legal[:, fold], fold, tree.legal.argmax(axis=1))
    folds = TabularPolicy(np.eye(game.actions)[chosen])
    theta = repeat(network(game, tree, rng), 1)
    size = privileged_input_size(game) if with_privilege else input_size(game)
    critic = initial_weights((size, 4, 1), rng)
    decisions = set()
    for each in rng.spawn(20):
        ours = (game, theta, critic, folds, 1, 1.0, 1.0, each, True)
        results = play_opponents(*ours, privileged=with_privilege)
        decisions.add(len(results.returns))
        assert results.features.shape == (len(results.returns), size)
        assert results.sample.weight.sum() == len(results.returns)
    assert decisions >= {0, 1}


@pytest.mark.parametrize("name", ["leduc", "brps"])
def test_merging_decisions_at_one_information_set_changes_no_gradient(game_and_tree, rng, name):
    game, tree = game_and_tree(name)
    members, games = 3, 80
    many = {n: np.stack([v] * members) for n, v in network(game, tree, rng).items()}
    theta = {n: v[0] for n, v in many.items()}
    batch = play(
        game, [NetworkPolicy(game.features, theta), UniformPolicy()], members * games, rng
    ).batch
    features = game.features(batch.observations())
    critic = initial_weights((features.shape[1], 4, 1), rng)
    advantage = generalised_advantages(batch, predict(critic, features), 0.99, 0.95)
    logp = np.log(
        np.where(batch.legal, NetworkPolicy(game.features, theta).probs(batch.observations()), 1)
    )
    logp = np.where(batch.legal, logp, -np.inf)
    member = batch.game // games
    apart, merged = (
        discrete_sample(batch, features, logp, advantage, games, member, members, merge)
        for merge in (False, True)
    )
    assert merged.weight.shape[1] < apart.weight.shape[1] / 2
    assert_float32_close(merged.weight.sum(axis=1), apart.weight.sum(axis=1))
    leaves = {n: v.requires_grad_() for n, v in tensors(many).items()}
    grads = [
        torch.autograd.grad(policy_gradient_loss(leaves, sample_tensors(s)), list(leaves.values()))
        for s in (apart, merged)
    ]
    for one, two in zip(*grads, strict=True):
        assert_float32_close(one, two)


def test_concatenated_samples_keep_their_tasks_separate(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    critic = initial_weights((game.features(tree.observations).shape[1], 4, 1), rng)
    parts, gradients = [], []
    weights = [{n: v[None] for n, v in network(game, tree, rng).items()} for _ in range(3)]
    for one, games in zip(weights, (5, 40, 12), strict=True):
        sample = play_opponents(game, one, critic, UniformPolicy(), games, 1.0, 1.0, rng).sample
        parts.append(sample)
        leaves = {n: v.requires_grad_() for n, v in tensors(one).items()}
        loss = policy_gradient_loss(leaves, sample_tensors(sample))
        gradients.append(torch.autograd.grad(loss, list(leaves.values())))
    together = {n: np.concatenate([w[n] for w in weights]) for n in weights[0]}
    leaves = {n: v.requires_grad_() for n, v in tensors(together).items()}
    loss = policy_gradient_loss(leaves, sample_tensors(join_samples(parts)))
    for k, whole_gradient in enumerate(torch.autograd.grad(loss, list(leaves.values()))):
        for m in range(3):
            assert_float32_close(whole_gradient[m], gradients[m][k][0])


@pytest.fixture
def task(game_and_tree, rng, random_strategy):
    """Return three tasks of Kuhn in double precision: weights (3, ...), a sample, and a
    direction."""
    game, tree = game_and_tree("kuhn")
    params = repeat(precise(network(game, tree, rng)), 3)
    theirs = np.stack([random_strategy(tree, rng) for _ in range(3)])
    sample = doubled(exact_tensors(exact(game), tree, params, theirs))
    along = {n: torch.from_numpy(rng.normal(size=v.shape)) for n, v in params.items()}
    return params, sample, along


def adapted(params, sample, second_order, step=0.5):
    leaves = {n: v.requires_grad_() for n, v in tensors(params).items()}
    return leaves, maml.adapt(leaves, sample, step, second_order)


def projected(moved, along):
    return sum((moved[n] * along[n]).sum() for n in moved)


def test_adaptation_is_one_step_down_the_policy_gradient_loss(task):
    params, sample, _ = task
    leaves, first = adapted(params, sample, second_order=False)
    _, second = adapted(params, sample, second_order=True)
    gradients = torch.autograd.grad(policy_gradient_loss(leaves, sample), list(leaves.values()))
    for (name, start), gradient in zip(leaves.items(), gradients, strict=True):
        assert torch.equal(first[name], start - 0.5 * gradient)
        # the order of derivatives does not change the value
        assert torch.equal(first[name], second[name])


def test_a_first_order_gradient_ignores_adaptation(task):
    params, sample, along = task
    leaves, moved = adapted(params, sample, second_order=False)
    gradients = torch.autograd.grad(projected(moved, along), list(leaves.values()))
    for name, gradient in zip(leaves, gradients, strict=True):
        assert torch.equal(gradient, along[name])


def test_a_second_order_gradient_is_the_slope_through_adaptation(task, rng):
    params, sample, along = task
    leaves, moved = adapted(params, sample, second_order=True)
    gradients = torch.autograd.grad(projected(moved, along), list(leaves.values()))
    exact_slopes = dict(zip(leaves, gradients, strict=True))
    differs = 0

    def after(weights):
        return float(projected(adapted(weights, sample, False)[1], along).detach())

    for name, place in some_entries(params, rng):
        gradient = float(exact_slopes[name][place])
        assert abs(gradient - slope(after, params, name, place)) < 1e-6
        differs += abs(gradient - float(along[name][place])) > 1e-3
    assert differs > 5  # a first-order gradient would be wrong


@pytest.mark.parametrize("steps", [1, 2])
def test_the_meta_gradient_is_the_slope_of_the_payoff_after_adaptation(task, rng, steps):
    params, sample, _ = task
    theta = {n: v[0] for n, v in params.items()}
    surrogate = maml.meta_surrogate([sample] * steps, sample, 0.5, second_order=True)
    leaves = {n: v.requires_grad_() for n, v in tensors(theta).items()}
    gain = surrogate.gain(surrogate.policy(leaves))
    gradients = torch.autograd.grad(gain, list(leaves.values()))

    def gained(weights):
        free = {n: v.requires_grad_() for n, v in tensors(weights).items()}
        return float(surrogate.gain(surrogate.policy(free)).detach())

    slopes = dict(zip(leaves, gradients, strict=True))
    for name, place in some_entries(theta, rng):
        assert abs(float(slopes[name][place]) - slope(gained, theta, name, place)) < 1e-6


def test_the_minibatches_of_a_surrogate_sum_to_the_whole(task):
    """Each minibatch has its own tasks, adapted on their own games."""
    params, sample, _ = task
    theta = {
        n: v.requires_grad_() for n, v in tensors({n: v[0] for n, v in params.items()}).items()
    }
    whole = maml.meta_surrogate([sample], sample, 0.5, second_order=False, minibatches=3)
    moved = {n: v + 0.1 for n, v in theta.items()}

    def gained(surrogate):
        return float(surrogate.gain(surrogate.policy(moved)).detach())

    each = [gained(part) for part in whole.minibatches]
    assert len(set(each)) == 3
    assert_float32_close(np.mean(each), gained(whole))


def test_the_meta_gradient_includes_the_change_of_the_sampled_games(game_and_tree, rng):
    """In a game of one decision, it equals the slope of the payoff after adaptation to games that
    the weights themselves play, computed here from the payoff table."""
    game, tree = game_and_tree("brps")
    theta = precise(network(game, tree, rng))
    theirs = np.array([[0.5, 0.2, 0.3], [0.1, 0.3, 0.6]])
    step = 0.02
    # mean payoff of each action of seat 0 and of seat 1
    wins = torch.from_numpy(np.stack([game.payoff @ theirs[1], -game.payoff.T @ theirs[0]]))

    def payoff(params):
        logits = forward(params, torch.eye(2, dtype=torch.float64))
        return (logits.softmax(dim=-1) * wins).sum() / 2

    leaves = {n: v.requires_grad_() for n, v in tensors(theta).items()}
    up = torch.autograd.grad(payoff(leaves), list(leaves.values()), create_graph=True)
    after = {n: v + step * g for (n, v), g in zip(leaves.items(), up, strict=True)}
    wanted = torch.autograd.grad(payoff(after), list(leaves.values()))

    moved = {n: v.detach().numpy()[None] for n, v in after.items()}
    inner, outer = (
        doubled(exact_tensors(exact(game), tree, params, theirs[None]))
        for params in (repeat(theta, 1), moved)
    )
    found, simpler = (
        torch.autograd.grad(surrogate.gain(surrogate.policy(leaves)), list(leaves.values()))
        for surrogate in (
            maml.meta_surrogate([inner], outer, step, second_order)
            for second_order in (True, False)
        )
    )
    for right, ours, rough in zip(wanted, found, simpler, strict=True):
        assert torch.allclose(ours, right, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(rough, right, atol=1e-2)


def test_each_task_adapts_to_its_own_opponent(game_and_tree, rng):
    """Opponents that always bet and that always pass have opposite best responses in Kuhn."""
    game, tree = game_and_tree("kuhn")
    theta = network(game, tree, rng)
    theirs = np.stack([np.tile([0.0, 1.0], (12, 1)), np.tile([1.0, 0.0], (12, 1))])
    params = repeat(theta, 2)
    for _ in range(60):
        sample = exact_tensors(game, tree, params, theirs)
        leaves = {n: v.requires_grad_() for n, v in tensors(params).items()}
        moved = maml.adapt(leaves, sample, 1.0)
        params = {n: v.detach().numpy() for n, v in moved.items()}
    for mine, opponent in zip(strategies(game, tree, params), theirs, strict=True):
        assert exact_payoff(tree, mine, opponent) > 0.95 * best_response_payoff(tree, opponent)


def two_actions(credit, chance=0.5):
    """Return one decision of two actions, the first played with probability `chance`, as a
    surrogate of its logits."""
    logp = torch.log(torch.tensor([[[chance, 1 - chance]]]))
    sample = DiscreteTensors(
        torch.ones(1, 1, 1), torch.ones(1, 1, 2, dtype=torch.bool), logp, credit, torch.ones(1, 1)
    )
    start = {"w": logp[0, 0].clone()}
    return start, sample, lambda theta: theta["w"].log_softmax(-1).expand(1, 1, 2)


def chance_of_first(theta):
    return float(theta["w"].softmax(-1)[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_ppo_stops_where_the_ratio_leaves_its_interval(rng, sign):
    """The first action has all the credit: its ratio goes to 1.2, or to 0.8 if the credit is
    negative."""
    start, sample, policy = two_actions(torch.tensor([[[0.5 * sign, 0.0]]]))
    ppo = Ppo(0.02, epochs=60, target_kl=100.0)  # without clipping to 1.8 and 0.2
    theta, _ = ppo.improve(start, Surrogate(sample, policy), rng)
    # Adam's momentum carries the ratio a little further
    assert 0.2 < sign * (chance_of_first(theta) / 0.5 - 1) < 0.5


def test_ppo_raises_the_entropy_and_approaches_the_teacher(rng):
    start, sample, policy = two_actions(torch.zeros(1, 1, 2), chance=0.8)
    free = {"epochs": 100, "target_kl": 100.0}
    even, _ = Ppo(0.03, entropy_coef=1.0, **free).improve(start, Surrogate(sample, policy), rng)
    assert chance_of_first(even) == pytest.approx(0.5, abs=0.03)
    teacher = torch.log(torch.tensor([[[0.3, 0.7]]]))
    taught, _ = Ppo(0.03, teacher_kl_coef=1.0, **free).improve(
        start, Surrogate(sample, policy, teacher=teacher), rng
    )
    assert chance_of_first(taught) == pytest.approx(0.3, abs=0.03)


def test_trpos_full_step_has_the_divergence_of_its_bound(rng):
    """For a small bound the divergence is quadratic in the step."""
    start, sample, policy = two_actions(torch.tensor([[[0.5, -0.5]]]), chance=0.4)
    _, metrics = Trpo(1e-4, damping=0.0).improve(start, Surrogate(sample, policy), rng)
    assert metrics["kl"] / metrics["step_taken"] ** 2 == pytest.approx(1e-4, rel=0.03)


def test_an_actor_critic_uses_lambda_for_advantages_and_gamma_for_both(rng):
    """The critic predicts 2 everywhere: by the definition of each target."""
    game = make("leduc")
    batch = play(game, [UniformPolicy()] * 2, 50, rng, recorded=[0]).batch
    size, seen = input_size(game), {}

    class Watch:
        def improve(self, theta, surrogate, rng):
            seen["credit"] = surrogate.sample.credit.sum(dim=-1).numpy().ravel()
            return theta, {}

    zero = {"w0": np.zeros((size, 1), np.float32), "b0": np.full(1, 2, np.float32)}

    class Constant(Critic):
        weights = zero

        def fit(self, features, returns, rng):
            seen["returns"] = returns
            return 0.0

    for gamma, lam in ((0.5, 0.0), (1.0, 0.0), (0.9, 0.5)):
        policy = initial_weights((size, 4, game.actions), rng)
        critic = Constant(size, (), rng, 0.01)
        ActorCritic(game.features, policy, critic, Watch(), gamma, lam).learn(batch, rng)
        advantage = batch.reward + np.where(batch.last, 0, gamma * 2) - 2
        for row in range(len(batch) - 2, -1, -1):
            advantage[row] += 0 if batch.last[row] else gamma * lam * advantage[row + 1]
        found = np.sort(seen["credit"])[np.abs(np.sort(seen["credit"])) > 0]
        wanted = np.sort(advantage / 50)
        assert found == pytest.approx(wanted[wanted != 0], abs=1e-6)
        returns = batch.reward.copy()
        for row in range(len(batch) - 2, -1, -1):
            returns[row] += 0 if batch.last[row] else gamma * returns[row + 1]
        assert seen["returns"] == pytest.approx(returns)
