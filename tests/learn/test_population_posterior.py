"""Bayesian estimates of opponents: against direct enumeration, and in matches on Kuhn poker."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config.job_file import GameChoice
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.board_match import play_match
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.players import FixedPlayer, PopulationPosteriorPlayer
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.learners.supervised.population_posterior import (
    UNIFORM_SHARE,
    OpponentEstimate,
    PopulationPrior,
)
from overtrick.solvers.extensive import best_response

KUHN = GameChoice(name="kuhn")
TOLD = tuple(SETTINGS)


def prior_of(told, members):
    here = board_evaluation.setting(KUHN, told)
    return PopulationPrior(here.tree, members, here.end_observations)


def learner(prior, bound=None):
    """Return a function that makes the player of a match."""
    return lambda here, rng: PopulationPosteriorPlayer(prior, rng, bound)


@pytest.fixture(scope="module")
def members():
    return board_evaluation.families(KUHN).draw_training(12, np.random.default_rng(3))


@pytest.mark.parametrize("told", TOLD)
def test_the_probability_of_a_view_is_the_sum_over_the_deals_that_agree(told, members) -> None:
    """The sum runs over all terminal nodes, from each back to the root."""
    prior, tree = prior_of(told, members), board_evaluation.setting(KUHN, told).tree
    for seat in range(2):
        expected = np.zeros((prior.end_observations[seat].max() + 1, len(members)))
        for node in np.flatnonzero(prior.end_observations[seat] >= 0):
            chance, actions = 1.0, np.ones(len(members))
            step = node
            while step > 0:
                above = tree.parent[step]
                if tree.seat[above] < 0:
                    chance *= tree.chance[step]
                elif tree.seat[above] != seat:
                    actions *= members[:, tree.infoset[above], tree.edge[step]]
                step = above
            expected[prior.end_observations[seat][node]] += chance * actions
        assert np.exp(prior.log_likelihood[seat]) == pytest.approx(expected, abs=1e-11)


def test_each_setting_tells_more_than_the_one_before(members) -> None:
    """In Kuhn poker a payoff at a showdown tells less than the card."""
    counts = [prior_of(told, members).end_observations[0].max() + 1 for told in TOLD]
    assert counts[0] < counts[1] < counts[2] == 30  # all terminal histories of Kuhn poker


@pytest.mark.parametrize("told", TOLD)
def test_a_player_sees_its_own_cards_the_board_and_what_it_is_told(told) -> None:
    """A fold is the only way to end a game of Leduc without a showdown."""
    here = board_evaluation.setting(GameChoice(name="leduc"), told)
    fold = here.game.action_names.index("fold")
    folds = shows = 0
    for node in np.flatnonzero(here.tree.children == 0):
        for seat in range(2):
            found = here.finished_game(seat, int(node))
            hidden = [column for column, card in enumerate(found.cards) if card < 0]
            folded = fold in found.actions
            assert bool(hidden) == (told == "own_cards" or (told == "showdown" and folded))
            assert hidden in ([], [1 - seat])
            folds, shows = folds + folded, shows + (not folded)
    assert folds > 100
    assert shows > 100


def test_with_all_cards_the_estimate_is_counts_and_pseudo_counts(members, rng) -> None:
    """Nothing is hidden, so that expectation maximisation must find the closed form."""
    prior = prior_of("all_cards", members[:1])
    tree = prior.tree
    estimate = OpponentEstimate(prior, (3.0,))
    counts = np.zeros(tree.legal.shape)
    ends = np.flatnonzero(prior.end_observations[0] >= 0)
    for game, end in enumerate(rng.choice(ends, 40)):
        node, seat = end, game % 2
        estimate.observe(seat, int(prior.end_observations[seat][end]))
        while node > 0:
            above = tree.parent[node]
            if tree.seat[above] == 1 - seat:
                counts[tree.infoset[above], tree.edge[node]] += 1
            node = above
    estimate.update()
    mean = (1 - UNIFORM_SHARE) * members[0] + UNIFORM_SHARE * tree.uniform()
    expected = counts + 3.0 * mean
    expected /= expected.sum(axis=1, keepdims=True)
    assert estimate.strategy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("told", ["own_cards", "showdown"])
def test_expectation_maximisation_climbs_to_a_maximum_of_the_posterior(told, members, rng) -> None:
    """Hidden cards are marginalised: an update must not lower log-likelihood plus log-prior.

    Both are computed from the reach probabilities of all terminal nodes.
    """
    prior, concentration = prior_of(told, members[:1]), 2.0
    tree, strange = prior.tree, board_evaluation.families(KUHN).random_strategy(rng)
    counts = [np.zeros(number.max() + 1) for number in prior.end_observations]
    estimate = OpponentEstimate(prior, (concentration,))
    for game in range(60):
        seat = game % 2
        profile = np.where((tree.observations.seat == seat)[:, None], tree.uniform(), strange)
        ends = np.flatnonzero(tree.children == 0)
        node = rng.choice(ends, p=best_response.reach(tree, profile)[ends])
        number = int(prior.end_observations[seat][node])
        counts[seat][number] += 1
        estimate.observe(seat, number)
    mean = (1 - UNIFORM_SHARE) * members[0] + UNIFORM_SHARE * tree.uniform()

    def log_posterior(strategy) -> float:
        total = (concentration * mean * np.log(np.where(tree.legal, strategy, 1)))[tree.legal].sum()
        for seat, number in enumerate(prior.end_observations):
            reached = best_response.reach(tree, strategy, without=seat)
            ends = np.flatnonzero(number >= 0)
            likelihood = np.bincount(number[ends], reached[ends], minlength=len(counts[seat]))
            total += counts[seat] @ np.log(np.maximum(likelihood, 1e-300))
        return float(total)

    found = []
    for _ in range(200):
        estimate.update()
        found.append(log_posterior(tree.table(estimate.strategies[0])))
    assert np.diff(found).min() > -1e-9
    assert found[-1] > log_posterior(mean) + 1
    best = tree.table(estimate.strategies[0])
    for _ in range(50):  # a maximum: no small step towards another strategy leads higher
        other = board_evaluation.families(KUHN).random_strategy(rng)
        assert log_posterior(0.999 * best + 0.001 * other) < found[-1] + 1e-6


@pytest.mark.parametrize("told", TOLD)
def test_a_member_of_the_population_is_recognised(told, members) -> None:
    """After 300 games the response wins nearly all that a best response would."""
    here, member = board_evaluation.setting(KUHN, told), members[0]
    opponent = BoardOpponent("member", "member", (member,))
    player = learner(prior_of(told, members))
    result = play_match(here, player, opponent, [300], np.random.default_rng(1))
    best = best_response_payoff(here.tree, member)
    assert best > 0.05
    assert result.checkpoints[0].payoff == pytest.approx(best, rel=0.05)


def test_an_opponent_outside_the_population_is_learned_from_games(members) -> None:
    """The only member of the population is tight; the opponents' probabilities are random."""
    here, families = board_evaluation.setting(KUHN, "own_cards"), board_evaluation.families(KUHN)
    shares = []
    for seed in range(8):
        strange = families.random_strategy(np.random.default_rng(seed))
        player = learner(prior_of("own_cards", members[:1]))
        opponent = BoardOpponent("strange", "strange", (strange,))
        found = play_match(here, player, opponent, [1, 1000], np.random.default_rng(1)).checkpoints
        best = best_response_payoff(here.tree, strange)
        shares.append([found[0].payoff / best, found[1].payoff / best])
    before, after = np.mean(shares, axis=0)
    assert before < 0.4
    assert after > 0.85


def test_a_match_against_itself_pays_what_the_tree_says(members, rng) -> None:
    """The mean of the games played, within four standard errors of their number."""
    here = board_evaluation.setting(KUHN, "own_cards")
    opponent = BoardOpponent("member", "member", (members[1],))
    result = play_match(here, lambda *_: FixedPlayer(members[2]), opponent, [1, 40_000], rng)
    exact = result.checkpoints[1]
    assert exact.online == pytest.approx(exact.payoff, abs=4 * 2 / 40_000**0.5)


def test_a_bounded_player_is_never_more_exploitable(members, rng) -> None:
    here, bound = board_evaluation.setting(KUHN, "all_cards"), 0.05
    strange = board_evaluation.families(KUHN).random_strategy(rng)
    opponent = BoardOpponent("strange", "strange", (strange,))
    asked = []

    class Watched(PopulationPosteriorPlayer):
        def next_strategy(self, games):
            asked.append(super().next_strategy(games))
            return asked[-1]

    def new_player(setting, player_rng):
        return Watched(prior_of("all_cards", members), player_rng, bound)

    found = play_match(here, new_player, opponent, [1, 20, 40], rng).checkpoints
    gaps = [best_response.exploitability(here.tree, strategy) for strategy in asked]
    assert max(gaps + [each.exploitability for each in found]) <= bound + 1e-7


def test_a_player_is_evaluated_by_its_best_response_to_all_games(members, rng) -> None:
    """Also after a number of games at which it would explore, or not update its estimate."""
    here, prior = board_evaluation.setting(KUHN, "all_cards"), prior_of("all_cards", members)
    games = []
    player = PopulationPosteriorPlayer(prior, rng)
    ends = np.flatnonzero(here.tree.children == 0)
    for number in range(204):
        player.next_strategy(games)
        games.append(here.finished_game(number % 2, int(rng.choice(ends))))
    alone = OpponentEstimate(prior)
    for game in games:
        alone.observe(game.seat, game.number)
    alone.update()
    updates = 0

    class CountsUpdates(OpponentEstimate):
        def update(self) -> None:
            nonlocal updates
            updates += 1
            super().update()

    player.estimate.__class__ = CountsUpdates
    strategy = player.strategy(games)
    assert updates == 1  # the estimate had not been updated after the last game
    assert player.strategy(games) is strategy
    assert updates == 1
    response = best_response.best_responses(here.tree, player.estimate.strategy())
    assert np.array_equal(strategy, response)
    assert player.estimate.log_posterior == pytest.approx(alone.log_posterior)


def test_an_opponent_changes_during_a_match(members, rng) -> None:
    """The first strategy folds to every bet and the second never; the player always bets."""
    here = board_evaluation.setting(KUHN, "own_cards")
    tree = here.tree
    fold, call = (np.where(tree.legal, ends, 0.0) for ends in ([1, 0], [0, 1]))
    opponent = BoardOpponent("changing", "changing", (fold, call))
    played = play_match(here, lambda *_: FixedPlayer(call), opponent, [1000, 2000], rng)
    first, second = played.checkpoints
    assert first.payoff is second.payoff is None
    assert first.online == 1.0  # it wins the ante of every game
    later = 2 * second.online - first.online
    exact = exact_payoff(tree, call, call)
    assert later == pytest.approx(exact, abs=4 * 2 / 1000**0.5)
