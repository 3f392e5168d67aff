"""In-context learners: network, sampled matches, gradients, and a training run on Kuhn poker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.board_match import play_match
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.in_context_player import InContextPlayer
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.sampled_matches import MatchSampler
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium, game_with_tree
from overtrick.learners.policy_gradient.match_network import (
    COUNT_SCALE,
    EVIDENCE_SCALE,
    MatchNetworkSizes,
    initial_match_weights,
    match_log_probs,
    match_strategies,
)
from overtrick.policies import model_kinds
from overtrick.policies.forward_pass import tensors
from overtrick.solvers.extensive import best_response
from overtrick.training.adaptation import in_context, training_opponents
from overtrick.training.adaptation import in_context_matches as matches
from overtrick.training.registry import JOBS, TRAINERS

KUHN = GameChoice(name="kuhn")
SIZES = MatchNetworkSizes(heads=2, hypotheses=5, queries=3, values=2, hidden=16)


@pytest.fixture
def sampler() -> MatchSampler:
    return MatchSampler(board_evaluation.setting(KUHN, "own_cards"))


def random_strategy(tree, rng):
    weights = rng.random(tree.legal.shape) * tree.legal
    return weights / weights.sum(axis=1, keepdims=True)


def test_counts_give_the_same_strategy_as_reading_games_one_by_one(rng):
    """A second implementation, which reads one game after the other."""
    weights = initial_match_weights(SIZES, 7, (4, 2), rng)
    games = [3, 3, 0, 6, 3, 0]
    legal = np.array([[1, 1], [1, 1], [1, 0], [1, 1]], bool)
    evidence = np.zeros((2, 5))
    for game in games:
        evidence += weights["evidence"][game]
    odds = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    inputs = [EVIDENCE_SCALE * (odds / odds.sum(axis=1, keepdims=True)).ravel()]
    scores = np.array([weights["scores"][game] for game in games] + [np.zeros(3)])
    attention = np.exp(scores) / np.exp(scores).sum(axis=0)  # (games + 1, Q)
    values = np.array([weights["values"][game] for game in games] + [np.zeros((3, 2))])
    inputs.append(np.einsum("gq,gqv->qv", attention, values).ravel())
    inputs.append(COUNT_SCALE * np.log1p(np.exp(scores[:-1]).sum(axis=0)))
    x = np.concatenate(inputs) @ weights["w0"] + weights["b0"]
    x = np.maximum((x - x.mean()) / np.sqrt(x.var() + 1e-5), 0)
    x = x + np.maximum(x @ weights["w1"] + weights["b1"], 0)
    logits = (x - x.mean()) / np.sqrt(x.var() + 1e-5) @ weights["w2"] + weights["b2"]
    odds = np.exp(logits.reshape(4, 2)) * legal
    counts = np.bincount(games, minlength=7)[None].astype(float)
    found = match_strategies(weights, counts, legal)[0]
    assert found == pytest.approx(odds / odds.sum(axis=1, keepdims=True), abs=1e-5)


def test_illegal_actions_have_no_probability(rng):
    weights = initial_match_weights(SIZES, 7, (4, 3), rng)
    legal = torch.tensor([[True, False, True]] * 4)
    logs = match_log_probs(tensors(weights), torch.zeros(1, 7), legal)
    assert torch.isneginf(logs[0, :, 1]).all()
    assert logs.exp().sum(dim=-1).allclose(torch.ones(1, 4))


@pytest.mark.parametrize("told", SETTINGS)
def test_sampled_frequencies_match_exact_probabilities(told, rng):
    """The probabilities are products along the path from the root to each terminal node."""
    sampler = MatchSampler(board_evaluation.setting(KUHN, told))
    tree, games = sampler.setting.tree, 40_000
    ours, theirs = random_strategy(tree, rng), random_strategy(tree, rng)
    expected = np.zeros(sampler.observation_count)
    for seat in range(2):
        both = np.where((tree.observations.seat == seat)[:, None], ours, theirs)
        reach = best_response.reach(tree, both)
        for node in np.flatnonzero(sampler.setting.end_observations[seat] >= 0):
            number = sampler.setting.finished_game(seat, int(node)).number
            expected[sampler.count_index(seat, number)] += games * reach[node]
    found = sampler.sample(ours, theirs, (games, games), rng)
    assert expected.sum() == pytest.approx(2 * games)
    assert found.sum() == 2 * games
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_counterfactual_advantages_times_reach_are_the_policy_gradient(sampler, rng):
    tree = sampler.setting.tree
    ours, theirs = random_strategy(tree, rng), random_strategy(tree, rng)
    credit, reach = matches.counterfactual_advantages(tree, ours, theirs)
    for seat in range(2):
        own = tree.observations.seat == seat
        both = np.where(own[:, None], ours, theirs)
        visits, advantage = best_response.policy_gradient(tree, both, seat)
        alone = np.where(reach > 0, visits / (2 * reach), 0)  # by the player's own actions
        assert credit[own] * alone[own, None] == pytest.approx(
            (visits[:, None] * advantage / 2)[own], abs=1e-12
        )


def test_sampled_advantages_have_the_policy_gradient_as_mean(sampler, rng):
    tree, games = sampler.setting.tree, 200_000
    ours, theirs = random_strategy(tree, rng), random_strategy(tree, rng)
    credit, visits = matches.sampled_advantages(tree, ours, theirs, games, rng)
    for seat in range(2):
        own = tree.observations.seat == seat
        both = np.where(own[:, None], ours, theirs)
        reach, advantage = best_response.policy_gradient(tree, both, seat)
        expected = reach[:, None] / 2 * ours * advantage
        assert visits[own] == pytest.approx(reach[own] / 2, abs=0.006)
        assert credit[own] == pytest.approx(expected[own], abs=0.02)


def test_the_samples_of_ppo_have_the_policy_gradient_of_the_perturbed_strategy_as_mean(
    sampler, rng
):
    """Its ratios are relative to the strategy without the perturbation."""
    tree, epsilon = sampler.setting.tree, 0.5
    weights = initial_match_weights(SIZES, sampler.observation_count, tree.legal.shape, rng)
    weights["w2"] *= 60  # a strategy far from uniform play
    section = in_context.InContext(gradient="ppo", games=200_000, stages=2)
    theirs = random_strategy(tree, rng)
    found = matches.play_matches(rng, (KUHN, section, weights, epsilon), theirs[None])
    ours = match_strategies(weights, np.zeros((1, sampler.observation_count)), tree.legal)[0]
    perturbed = (1 - epsilon) * ours + epsilon * tree.uniform()
    gradient = np.zeros(ours.shape)
    for seat in range(2):
        own = (tree.observations.seat == seat)[:, None]
        both = np.where(own, perturbed, theirs)
        reach, advantage = best_response.policy_gradient(tree, both, seat)
        gradient += np.where(own, reach[:, None] / 2 * advantage, 0)
    assert np.abs(perturbed * gradient - ours * gradient).max() > 0.02
    assert found.sample.credit[0] == pytest.approx(ours * gradient, abs=0.006)


def test_training_opponents_are_strategies(rng):
    tree = board_evaluation.setting(KUHN, "own_cards").tree
    section = training_opponents.TrainingOpponents(size=20, deviating_share=0.5)
    members = training_opponents.read_members(KUHN, section)
    drawn = training_opponents.draw_opponents(tree, members, section, 50, rng)
    assert drawn.shape == (50, *tree.legal.shape)
    assert drawn.sum(axis=2) == pytest.approx(1)
    assert (drawn[:, ~tree.legal] == 0).all()
    unchanged = [any(np.array_equal(each, member) for member in members[0]) for each in drawn]
    assert 10 <= sum(unchanged) <= 35  # 45 % are neither swapped nor deviate


def trained(gradient: str, rng: np.random.Generator, members: np.ndarray) -> dict:
    """Train a network against given opponents in Kuhn; return its weights."""
    content = {
        "trainer": "in_context",
        "game": "kuhn",
        "stop": {"iterations": 12},
        "in_context": {
            "heads": 1, "hypotheses": 8, "queries": 8, "values": 2, "hidden": 32,
            "matches": 20, "stages": 3, "shortest_block": 300, "longest_block": 400,
            "learning_rate": 0.01, "entropy_coef": 0.2, "entropy_coef_end": 0.002,
            "gradient": gradient, **({"games": 100} if gradient == "ppo" else {}),
        },
        "opponents": {"size": 2, "deviating_share": 0},
    }  # fmt: skip
    trainer = TRAINERS["in_context"].trainer(job_file.parse(content, JOBS, "job"), LocalPool())
    trainer.members = (members,)
    for k in range(12):
        trainer.train_iteration(rng, k / 12)
    return {n.removeprefix("match."): v for n, v in trainer.model().items()}


@pytest.mark.parametrize("gradient", ["exact", "ppo"])
def test_a_trained_network_best_responds_to_the_prior_and_then_to_the_opponent(
    gradient, sampler, rng, monkeypatch
):
    """Before the first game, the best strategy is the best response to the mean opponent."""
    monkeypatch.setattr(training_opponents, "MIXED_SEATS_SHARE", 0)
    tree = sampler.setting.tree
    always_folds, always_bets = (np.zeros(tree.legal.shape) for _ in range(2))
    always_folds[:, 0], always_bets[:, 1] = 1, 1  # pass or fold, and bet or call, with any card
    members = 0.9 * np.stack([always_folds, always_bets]) + 0.1 * tree.uniform()
    weights = trained(gradient, rng, members)
    before = match_strategies(weights, np.zeros((1, sampler.observation_count)), tree.legal)[0]
    means = [
        np.mean([exact_payoff(tree, strategy, member) for member in members])
        for strategy in (before, cached_equilibrium(KUHN))
    ]
    assert means[0] > means[1] + 0.1
    for member in members:
        counts = sampler.sample(before, member, (200, 200), rng)
        after = match_strategies(weights, counts[None], tree.legal)[0]
        won, most = exact_payoff(tree, after, member), best_response_payoff(tree, member)
        assert won > 0.9 * most
        assert won > exact_payoff(tree, before, member) - 1e-3


def test_a_player_counts_games_and_keeps_its_bound(rng):
    setting = board_evaluation.setting(KUHN, "showdown")
    sampler, tree = MatchSampler(setting), setting.tree
    weights = initial_match_weights(SIZES, sampler.observation_count, tree.legal.shape, rng)
    equilibrium = cached_equilibrium(KUHN)
    opponent = BoardOpponent("uniform", "uniform", (tree.uniform(),))

    def bounded(here, player_rng):
        return InContextPlayer(here, weights, equilibrium, 0.05)

    result = play_match(setting, bounded, opponent, (4, 20), rng)
    assert [each.exploitability for each in result.checkpoints] == [
        pytest.approx(0.05, abs=1e-5), pytest.approx(0.05, abs=1e-5),
    ]  # fmt: skip
    player, games = InContextPlayer(setting, weights, equilibrium), []
    end = int(np.flatnonzero(setting.end_observations[0] >= 0)[0])
    for seat in (0, 1, 0):
        games.append(setting.finished_game(seat, end))
        player.next_strategy(games)
    counts = np.zeros((1, sampler.observation_count))
    counts[0, sampler.count_index(0, games[0].number)] = 2
    counts[0, sampler.count_index(1, games[1].number)] = 1
    assert np.array_equal(player.strategy(games), match_strategies(weights, counts, tree.legal)[0])


def test_a_stored_network_plays_before_the_first_game_and_a_damaged_one_is_refused(rng):
    game, tree = game_with_tree(KUHN)
    weights = initial_match_weights(SIZES, 9, tree.legal.shape, rng)

    def policy(arrays):
        stored = {f"match.{name}": array for name, array in arrays.items()}
        return model_kinds.load_policy(model_kinds.StoredWeights(stored, {}, "net"), game)

    sigma = best_response.sigma_of(tree, [policy(weights)] * 2)
    assert sigma == pytest.approx(match_strategies(weights, np.zeros((1, 9)), tree.legal)[0])
    for change in ({"w2": weights["w2"][:, :4]}, {"values": np.zeros(3)}, {"b0": np.zeros(())}):
        with pytest.raises(UserError, match="the network in net does not fit kuhn"):
            policy({**weights, **change})
    with pytest.raises(UserError, match="or is damaged"):
        policy({name: array for name, array in weights.items() if name != "evidence"})


def test_a_network_of_another_setting_is_refused(rng):
    setting = board_evaluation.setting(KUHN, "all_cards")
    weights = initial_match_weights(SIZES, 5, setting.tree.legal.shape, rng)
    with pytest.raises(UserError, match="reads 5 kinds of observations"):
        InContextPlayer(setting, weights, cached_equilibrium(KUHN))
