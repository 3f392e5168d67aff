"""Local best responses beside exact ones, and the sampling of hidden cards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import overtrick
from overtrick.core import Redealable, UserError, select_rows
from overtrick.games import registry
from overtrick.games.matrix import Matrix
from overtrick.games.poker import rules
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.games.poker.game import Poker
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.lookahead.local_best_response import (
    Responder,
    exact_local_best_response,
    local_best_response,
)
from overtrick.studies.exact_solutions import best_response_to

POKER = [
    *((name, {}) for name in ("kuhn", "one_card", "leduc", "leduc_textbook")),
    ("leduc_textbook", {"fold": False}),
]
GAMES = [("brps", {}), *POKER]
DECK = replace(rules.LEDUC, ranks=13, suits=4, rank_names="23456789TJQKA")


def caller(game):
    return registry.scripted_players(game)["call"](game)


def mean_of_seats(reply, *arguments):
    """Return the mean over seats of a response, a function that gives a value and a strategy."""
    return (reply(*arguments, 0)[0] + reply(*arguments, 1)[0]) / 2


def play_turns(game, deals, policy, rng):
    """Play some deals with one policy in both seats; yield each turn and all earlier turns."""
    state, past = game.start(deals), []
    while len(observations := game.observe(state)):
        yield observations, list(past)
        action = sample_actions(policy.probs(observations), rng).action
        acted = np.full((len(deals), game.seats), -1)
        acted[observations.game, observations.seat] = action
        past.append(acted)
        game.step(state, observations, action)


@pytest.mark.parametrize("name", ["kuhn", "leduc", "leduc_textbook"])
def test_a_local_best_response_is_between_its_fallbacks_and_the_best_response(
    game_and_tree, name, rng, random_strategy
):
    game, tree = game_and_tree(name)
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2), random_strategy(tree, rng)]
        for seat in range(2):
            own = (tree.observations.seat == seat)[:, None]
            won, reply = exact_local_best_response(tree, sigma, fallbacks, seat)
            assert won <= best_response.best_response(tree, sigma, seat)[0] + 1e-12
            for fallback in fallbacks:
                fallback_value = best_response.expected(tree, np.where(own, fallback, sigma))[seat]
                assert won >= fallback_value - 1e-12
            assert np.array_equal(reply[~own[:, 0]], sigma[~own[:, 0]])
            assert abs(best_response.expected(tree, reply)[seat] - won) < 1e-12


@pytest.mark.parametrize(("name", "seats"), [("brps", (0, 1)), ("kuhn", (1,)), ("one_card", (1,))])
def test_with_one_decision_per_seat_a_local_best_response_is_exact(
    game_and_tree, name, seats, rng, random_strategy
):
    _, tree = game_and_tree(name)
    for _ in range(20):
        sigma, fallback = random_strategy(tree, rng), random_strategy(tree, rng)
        for seat in seats:
            assert tree.stage[tree.observations.seat == seat].max() == 0
            best = best_response.best_response(tree, sigma, seat)[0]
            assert abs(exact_local_best_response(tree, sigma, [fallback], seat)[0] - best) < 1e-12


def test_a_best_response_cannot_be_improved_by_looking_one_action_ahead(
    game_and_tree, rng, random_strategy
):
    _, tree = game_and_tree("leduc")
    for seat in range(2):
        sigma = random_strategy(tree, rng)
        best, reply = best_response.best_response(tree, sigma, seat)
        assert abs(exact_local_best_response(tree, sigma, [reply], seat)[0] - best) < 1e-12


@pytest.mark.parametrize(
    ("player", "local", "best"), [("random", 1.4316, 1.4716), ("call", 0.7333, 0.7333)]
)
def test_against_weak_scripted_players_a_local_best_response_is_almost_exact(
    game_and_tree, player, local, best
):
    game, tree = game_and_tree("leduc")
    policy = {"random": UniformPolicy(), "call": caller(game)}[player]
    sigma = best_response.sigma_of(tree, [policy] * 2)
    fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2)]
    assert abs(mean_of_seats(exact_local_best_response, tree, sigma, fallbacks) - local) < 5e-5
    assert abs(mean_of_seats(best_response.best_response, tree, sigma) - best) < 5e-5


@pytest.mark.parametrize(("name", "options"), [("leduc", {}), ("leduc_textbook", {"fold": False})])
def test_estimated_action_values_are_exact_given_the_opponents_actions(
    game_and_tree, name, options, rng, random_strategy
):
    """By Bayes' rule the value of an action is a mean over the deals, weighted by the reach of the
    others."""
    game, tree = game_and_tree(name, **options)
    sigma = random_strategy(tree, rng)
    fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2), random_strategy(tree, rng)]
    responder = Responder(game, TabularPolicy(sigma), tuple(map(TabularPolicy, fallbacks)), 4_000)
    exact = np.full(tree.legal.shape, -np.inf)
    for seat in range(2):
        own = tree.observations.seat == seat
        others = best_response.reach(tree, sigma, without=seat)
        acts = tree.seat == seat
        come = np.bincount(tree.infoset[acts], others[acts], tree.infosets)[own, None]
        for table in fallbacks:
            base = np.where(own[:, None], table, sigma)
            worth = best_response.counterfactual_values(tree, base, others, seat)[own] / come
            exact[own] = np.maximum(exact[own], np.where(tree.legal[own], worth, -np.inf))
    gaps, shown = [], 0
    for observations, past in play_turns(game, game.deal(8, rng), TabularPolicy(sigma), rng):
        hopes = responder.action_values(observations, past, rng)
        assert np.array_equal(np.isneginf(hopes), ~observations.legal)
        gaps.extend(hopes[observations.legal] - exact[observations.infoset][observations.legal])
        shown += (observations.observation[:, 1] >= 0).sum()
    scale = np.abs(tree.gain).max()
    assert shown > 5
    assert np.abs(gaps).max() < 0.1 * scale
    assert np.sqrt(np.mean(np.square(gaps))) < 0.02 * scale


def test_a_sampled_bound_equals_the_local_best_response_and_is_below_the_best_response(
    game_and_tree, rng, random_strategy
):
    game, tree = game_and_tree("leduc")
    for seed in range(3):
        sigma = random_strategy(tree, rng)
        fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2)]
        bound = local_best_response(
            game, TabularPolicy(sigma), [caller(game)], 1_200, np.random.default_rng(seed), 100
        )
        best = mean_of_seats(best_response.best_response, tree, sigma)
        exact = mean_of_seats(exact_local_best_response, tree, sigma, fallbacks)
        assert bound.mean <= best + 3.5 * bound.standard_error
        assert abs(bound.mean - exact) < 4 * bound.standard_error
        assert bound.standard_error < 0.15 * exact


def test_a_sampled_bound_is_below_the_best_response_to_many_policies(
    game_and_tree, rng, random_strategy
):
    game, tree = game_and_tree("leduc")
    above = []
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        bound = local_best_response(game, TabularPolicy(sigma), [caller(game)], 200, rng, 20)
        best = mean_of_seats(best_response.best_response, tree, sigma)
        above.append((bound.mean - best) / bound.standard_error)
    assert max(above) < 4
    assert np.mean(above) < 0


def test_simultaneous_actions_are_responded_to(game_and_tree, rng, random_strategy):
    """In a matrix game the best column is found, although the other seat's choice is unknown."""
    game, tree = game_and_tree("brps")
    sigma = random_strategy(tree, rng)
    bound = local_best_response(game, TabularPolicy(sigma), [UniformPolicy()], 1_000, rng)
    best = mean_of_seats(best_response.best_response, tree, sigma)
    assert abs(bound.mean - best) < 4 * bound.standard_error


def test_standard_errors_are_the_known_ones_if_the_best_action_is_clear(rng):
    """Against uniform play, row 0 wins 4 or 3 and column 1 loses 3 or 0, each with probability a
    half: variances 1/4 and 9/4. The two games of a deal are independent."""
    game = Matrix("clear", ((4.0, 3.0), (1.0, 0.0)), ("a", "b"))
    bound = local_best_response(game, UniformPolicy(), [UniformPolicy()], 1_000, rng, 60)
    assert bound.values == pytest.approx((3.5, -1.5), abs=0.3)
    assert bound.standard_errors == pytest.approx((0.5 / 500**0.5, 1.5 / 500**0.5), rel=0.02)
    assert bound.standard_error == pytest.approx((10 / 16 / 500) ** 0.5, rel=0.1)
    assert bound.deals == 500
    margin = 1.9647 * bound.standard_error  # 97.5 % of Student's t with 499 degrees of freedom
    assert bound.interval == pytest.approx((bound.mean - margin, bound.mean + margin), abs=1e-5)


@pytest.mark.parametrize(
    ("player", "games", "particles"), [("la", 600, 60), ("ta", 300, 60), ("lp", 200, 40)]
)
def test_each_scripted_player_of_limit_holdem_loses_significantly(player, games, particles):
    answer = best_response_to("holdem", player, {"games": games, "particles": particles})
    assert answer["interval"][0] > 0
    assert answer["interval"][0] < answer["mean"] < 2  # big blinds
    assert abs(sum(answer["values"]) / 2 - answer["mean"]) < 1e-12
    assert answer["kind"] == "lower bound"
    exact = best_response_to("kuhn", "call")
    assert exact["kind"] == "exact"
    assert exact.keys() <= answer.keys()


@pytest.mark.parametrize("particles", [1, 2])
def test_poor_estimates_only_weaken_the_bound(game_and_tree, particles):
    """A single particle rarely explains a scripted player's actions, and the bound is still
    valid."""
    game, tree = game_and_tree("leduc")
    bluffer = registry.scripted_players(game)["bluff"](game)
    sigma = best_response.sigma_of(tree, [bluffer] * 2)
    rng = np.random.default_rng(1)
    bound = local_best_response(game, bluffer, [caller(game)], 2_000, rng, particles)
    best = mean_of_seats(best_response.best_response, tree, sigma)
    assert bound.mean <= best + 3.5 * bound.standard_error
    assert bound.mean > -1


def test_with_the_policy_as_a_fallback_the_bound_is_not_negative(
    game_and_tree, rng, random_strategy
):
    _, tree = game_and_tree("leduc_textbook")
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        assert mean_of_seats(exact_local_best_response, tree, sigma, [sigma]) >= -1e-12


class RecordedPoker(EnumerablePoker):
    """Poker that records the actions in the games that were started first: the real ones."""

    def __init__(self, its_rules, fold):
        super().__init__(its_rules, fold)
        self.real, self.done = None, []

    def start(self, deals):
        state = super().start(deals)
        self.real = state if self.real is None else self.real
        return state

    def step(self, state, observations, action):
        if state is self.real:
            self.done.append(np.stack([observations.game, observations.seat, action]))
        return super().step(state, observations, action)


class MarkedCards(RecordedPoker):
    """Poker with marked cards: redealing returns the true deal."""

    def redeal(self, observations, rng):
        return self.real.cards[observations.game]


def played_twice(kind, seat):
    """Return the actions and points of two games with equal cards and random numbers of a seat, but
    other hidden cards."""
    true = EnumerablePoker(rules.LEDUC_TEXTBOOK, fold=False).every_deal()[0]
    order = np.lexsort((true[:, 1 - seat], true[:, 2], true[:, seat]))
    true = true[order].reshape(-1, 4, 3)  # the other seat has any of four cards
    false = true.copy()
    false[..., 1 - seat] = np.roll(true[..., 1 - seat], 1, axis=1)
    done, points = [], []
    for deals in (true.reshape(-1, 3), false.reshape(-1, 3)):
        game = kind(rules.LEDUC_TEXTBOOK, fold=False)
        responder = Responder(game, UniformPolicy(), (caller(game),), 20)
        sits = np.full(len(deals), seat)
        points.append(responder.play(deals, sits, np.random.default_rng(5)))
        done.append(np.concatenate(game.done, axis=1))
    return done, points


@pytest.mark.parametrize("seat", [0, 1])
def test_a_response_does_not_depend_on_hidden_cards(seat):
    """With other hidden cards, but equal random numbers and opponent, it acts the same."""
    done, points = played_twice(RecordedPoker, seat)
    assert np.array_equal(*done)
    assert (points[0] != points[1]).mean() > 0.1
    assert np.unique(done[0][2, done[0][1] == seat]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seat", [0, 1])
def test_a_dependence_on_hidden_cards_is_detected(seat):
    done, _ = played_twice(MarkedCards, seat)
    assert not np.array_equal(*done)


def test_the_same_seed_gives_the_same_bound():
    game = overtrick.make("leduc")
    one, two, three = (
        local_best_response(
            game, UniformPolicy(), [caller(game)], 200, np.random.default_rng(seed), 20
        )
        for seed in (3, 3, 4)
    )
    assert one == two != three
    low, high = one.interval
    assert abs((low + high) / 2 - one.mean) < 1e-12
    assert one.deals == 100
    wide = 1.98421695  # Student's t with 99 degrees of freedom, 97.5 %
    assert abs(high - low - 2 * wide * one.standard_error) < 1e-8


def test_a_bound_does_not_depend_on_the_batch_size(game_and_tree, monkeypatch):
    game, tree = game_and_tree("kuhn")
    monkeypatch.setattr(
        "overtrick.solvers.lookahead.local_best_response.MAX_PARALLEL_GAMES", 2 * 2 * 50 * 7
    )  # seven pairs
    fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2)]
    bound = local_best_response(
        game, UniformPolicy(), [caller(game)], 2_000, np.random.default_rng(2), 50
    )
    exact = mean_of_seats(exact_local_best_response, tree, tree.uniform(), fallbacks)
    assert abs(bound.mean - exact) < 4 * bound.standard_error


def test_unsupported_local_best_responses_are_refused(rng):
    three = Poker(replace(rules.KUHN, name="three", ranks=4, posts=(1, 1, 1)))
    kuhn = overtrick.make("kuhn")
    for game, fallbacks, games, particles, reason in [
        (three, [UniformPolicy()], 100, 10, "three: .* needs 2 seats"),
        (kuhn, [UniformPolicy()], 101, 10, "101 games: .* even number"),
        (kuhn, [UniformPolicy()], 2, 10, "2 games: .* 4 or more"),
        (kuhn, [UniformPolicy()], 100, 0, "at least 1 particle"),
        (kuhn, [], 100, 10, "at least 1 particle and 1 fallback"),
    ]:
        with pytest.raises(UserError, match=reason):
            local_best_response(game, UniformPolicy(), fallbacks, games, rng, particles)


@pytest.mark.parametrize(("name", "options"), [*GAMES, ("holdem", {})])
def test_a_redealt_game_has_the_same_observation(name, options, rng):
    game = overtrick.make(name, **options)
    assert isinstance(game, Redealable)
    dealt, hidden = game.deal(500, rng), False
    for observations, past in play_turns(game, dealt, UniformPolicy(), rng):
        again = game.redeal(observations, rng)
        hidden |= (again != dealt[observations.game]).any()
        state = game.start(again)
        for acted in past:
            again = game.observe(state)
            game.step(state, again, acted[observations.game][again.game, again.seat])
        again = game.observe(state)
        rows = np.flatnonzero(observations.seat[again.game] == again.seat)
        assert np.array_equal(again.game[rows], np.arange(len(observations)))
        assert np.array_equal(again.observation[rows], observations.observation)
        assert np.array_equal(again.legal[rows], observations.legal)
        if game.infosets is not None:
            assert np.array_equal(again.infoset[rows], observations.infoset)
    assert hidden == (name != "brps")


def views(tree):
    """Return one information set for each seat, hole card and board."""
    return np.unique(
        np.column_stack([tree.observations.seat, tree.observations.observation[:, :2]]),
        axis=0,
        return_index=True,
    )


@pytest.mark.parametrize(("name", "options"), POKER)
def test_hidden_cards_are_redealt_with_their_probabilities(
    game_and_tree, name, options, chi_square_p
):
    rng = np.random.default_rng(7)
    game, tree = game_and_tree(name, **options)
    deals, probability = game.every_deal()
    place = {tuple(deal): i for i, deal in enumerate(deals.tolist())}
    for (seat, hole, board), row in zip(*views(tree), strict=True):
        possible = deals[:, seat] == hole
        if board >= 0:
            possible &= deals[:, 2] == board
        drawn = game.redeal(select_rows(tree.observations, np.full(5_000, row)), rng)
        counts = np.bincount([place[tuple(d)] for d in drawn.tolist()], minlength=len(deals))
        assert chi_square_p(counts, probability * possible) > 1e-4


@pytest.mark.parametrize("fold", [True, False])
def test_no_card_of_a_full_deck_is_dealt_twice(fold, rng, chi_square_p):
    game = Poker(DECK, fold=fold)
    kinds, copies = (13, 4) if fold else (52, 1)
    for observations, _ in play_turns(game, game.deal(20_000, rng), caller(game), rng):
        cards = game.redeal(observations, rng)
        assert cards.min() >= 0
        assert cards.max() < kinds
        same = (cards[:, :, None] == cards[:, None, :]).sum(axis=2)
        assert same.max() <= copies
        # redealt from fairly dealt hands, every column is fair
        for column in cards.T:
            assert chi_square_p(np.bincount(column, minlength=kinds), np.full(kinds, 1)) > 1e-4
        paired = (cards[:, 0] == cards[:, 1]).sum()
        chance = (copies - 1) / 51
        assert chi_square_p([paired, len(cards) - paired], [chance, 1 - chance]) > 1e-4
