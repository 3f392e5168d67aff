"""Local best responses beside exact ones, and what a seat imagines of the cards it cannot see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import overtrick
from overtrick.core import Redealable, UserError, select_rows
from overtrick.games import registry
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
from overtrick.studies.exact import best_response_to

POKER = [
    *((name, {}) for name in ("kuhn", "one_card", "leduc", "leduc_textbook")),
    ("leduc_textbook", {"fold": False}),
]
GAMES = [("brps", {}), *POKER]
DECK = replace(rules.LEDUC, ranks=13, suits=4, rank_names="23456789TJQKA")


def caller(game):
    return registry.scripted_players(game)["call"](game)


def mean_of_seats(reply, *arguments):
    """What a reply (a function that gives a value and a strategy) wins on average."""
    return (reply(*arguments, 0)[0] + reply(*arguments, 1)[0]) / 2


def wander(game, deals, policy, rng):
    """Play some deals, both seats by one policy: each turn and all that was done before it."""
    state, past = game.start(deals), []
    while len(observations := game.observe(state)):
        yield observations, list(past)
        action = sample_actions(policy.probs(observations), rng).action
        acted = np.full((len(deals), game.seats), -1)
        acted[observations.game, observations.seat] = action
        past.append(acted)
        game.step(state, observations, action)


@pytest.mark.parametrize("name", ["kuhn", "leduc", "leduc_textbook"])
def test_a_local_reply_is_between_its_fallbacks_and_the_best_response(
    whole, name, rng, random_strategy
):
    game, tree = whole(name)
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2), random_strategy(tree, rng)]
        for seat in range(2):
            own = (tree.observations.seat == seat)[:, None]
            won, reply = exact_local_best_response(tree, sigma, fallbacks, seat)
            assert won <= best_response.best_response(tree, sigma, seat)[0] + 1e-12
            for fallback in fallbacks:
                alone = best_response.expected(tree, np.where(own, fallback, sigma))[seat]
                assert won >= alone - 1e-12
            assert np.array_equal(reply[~own[:, 0]], sigma[~own[:, 0]])
            assert abs(best_response.expected(tree, reply)[seat] - won) < 1e-12


@pytest.mark.parametrize(("name", "seats"), [("brps", (0, 1)), ("kuhn", (1,)), ("one_card", (1,))])
def test_who_decides_but_once_needs_to_look_no_further(whole, name, seats, rng, random_strategy):
    _, tree = whole(name)
    for _ in range(20):
        sigma, fallback = random_strategy(tree, rng), random_strategy(tree, rng)
        for seat in seats:
            assert tree.stage[tree.observations.seat == seat].max() == 0
            best = best_response.best_response(tree, sigma, seat)[0]
            assert abs(exact_local_best_response(tree, sigma, [fallback], seat)[0] - best) < 1e-12


def test_a_best_response_cannot_be_improved_by_looking_one_action_ahead(
    whole, rng, random_strategy
):
    _, tree = whole("leduc")
    for seat in range(2):
        sigma = random_strategy(tree, rng)
        best, reply = best_response.best_response(tree, sigma, seat)
        assert abs(exact_local_best_response(tree, sigma, [reply], seat)[0] - best) < 1e-12


@pytest.mark.parametrize(
    ("stranger", "local", "best"), [("random", 1.4316, 1.4716), ("call", 0.7333, 0.7333)]
)
def test_against_weak_strangers_looking_one_action_ahead_is_nearly_enough(
    whole, stranger, local, best
):
    game, tree = whole("leduc")
    policy = {"random": UniformPolicy(), "call": caller(game)}[stranger]
    sigma = best_response.sigma_of(tree, [policy] * 2)
    fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2)]
    assert abs(mean_of_seats(exact_local_best_response, tree, sigma, fallbacks) - local) < 5e-5
    assert abs(mean_of_seats(best_response.best_response, tree, sigma) - best) < 5e-5


@pytest.mark.parametrize(("name", "options"), [("leduc", {}), ("leduc_textbook", {"fold": False})])
def test_what_is_hoped_is_what_is_true_given_the_opponents_actions(
    whole, name, options, rng, random_strategy
):
    """Bayes: the exact value of an action is a mean over the deals by the others' reach."""
    game, tree = whole(name, **options)
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
    for observations, past in wander(game, game.deal(8, rng), TabularPolicy(sigma), rng):
        hopes = responder.action_values(observations, past, rng)
        assert np.array_equal(np.isneginf(hopes), ~observations.legal)
        gaps.extend(hopes[observations.legal] - exact[observations.infoset][observations.legal])
        shown += (observations.observation[:, 1] >= 0).sum()
    scale = np.abs(tree.gain).max()
    assert shown > 5
    assert np.abs(gaps).max() < 0.1 * scale
    assert np.sqrt(np.mean(np.square(gaps))) < 0.02 * scale


def test_a_sampled_bound_is_what_a_local_reply_wins_and_no_more_than_a_best_response(
    whole, rng, random_strategy
):
    game, tree = whole("leduc")
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


def test_a_sampled_bound_is_below_the_best_response_to_many_policies(whole, rng, random_strategy):
    game, tree = whole("leduc")
    above = []
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        bound = local_best_response(game, TabularPolicy(sigma), [caller(game)], 200, rng, 20)
        best = mean_of_seats(best_response.best_response, tree, sigma)
        above.append((bound.mean - best) / bound.standard_error)
    assert max(above) < 4
    assert np.mean(above) < 0


def test_both_seats_of_a_turn_are_replied_to_at_once(whole, rng, random_strategy):
    """In a matrix game the best column is found, though the other seat chooses unseen."""
    game, tree = whole("brps")
    sigma = random_strategy(tree, rng)
    bound = local_best_response(game, TabularPolicy(sigma), [UniformPolicy()], 1_000, rng)
    best = mean_of_seats(best_response.best_response, tree, sigma)
    assert abs(bound.mean - best) < 4 * bound.standard_error


@pytest.mark.parametrize(
    ("stranger", "games", "particles"), [("la", 600, 60), ("ta", 300, 60), ("lp", 200, 40)]
)
def test_each_stranger_of_limit_holdem_loses_more_than_luck_explains(stranger, games, particles):
    told = best_response_to("holdem", stranger, {"games": games, "particles": particles})
    assert told["interval"][0] > 0
    assert told["interval"][0] < told["mean"] < 2  # big blinds
    assert abs(sum(told["values"]) / 2 - told["mean"]) < 1e-12
    assert told["kind"] == "lower bound"
    exact = best_response_to("kuhn", "call")
    assert exact["kind"] == "exact"
    assert exact.keys() <= told.keys()


@pytest.mark.parametrize("particles", [1, 2])
def test_poor_estimates_only_weaken_the_bound(whole, particles):
    """A single particle rarely explains what a scripted player did, and still wins fairly."""
    game, tree = whole("leduc")
    bluffer = registry.scripted_players(game)["bluff"](game)
    sigma = best_response.sigma_of(tree, [bluffer] * 2)
    rng = np.random.default_rng(1)
    bound = local_best_response(game, bluffer, [caller(game)], 2_000, rng, particles)
    best = mean_of_seats(best_response.best_response, tree, sigma)
    assert bound.mean <= best + 3.5 * bound.standard_error
    assert bound.mean > -1


def test_the_policy_as_a_fallback_keeps_the_bound_from_sinking_below_zero(
    whole, rng, random_strategy
):
    _, tree = whole("leduc_textbook")
    for _ in range(20):
        sigma = random_strategy(tree, rng)
        assert mean_of_seats(exact_local_best_response, tree, sigma, [sigma]) >= -1e-12


class Witnessed(EnumerablePoker):
    """Poker that notes what is done in the games that were started first: the real ones."""

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


class Marked(Witnessed):
    """Poker with marked cards: a seat imagines no other deal than the true one."""

    def redeal(self, observations, rng):
        return self.real.cards[observations.game]


def played_twice(kind, seat):
    """What is done and won with a seat's cards and luck the same, and the hidden cards not."""
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
def test_a_responder_does_not_peek(seat):
    """With other hidden cards, but the same luck and opponent, it does the same."""
    done, points = played_twice(Witnessed, seat)
    assert np.array_equal(*done)
    assert (points[0] != points[1]).mean() > 0.1
    assert np.unique(done[0][2, done[0][1] == seat]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seat", [0, 1])
def test_a_peek_would_be_seen(seat):
    done, _ = played_twice(Marked, seat)
    assert not np.array_equal(*done)


def test_the_same_luck_gives_the_same_bound():
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


def test_a_bound_does_not_hang_on_how_many_games_fit_side_by_side(whole, monkeypatch):
    game, tree = whole("kuhn")
    monkeypatch.setattr(
        "overtrick.solvers.lookahead.local_best_response.MAX_PARALLEL_GAMES", 2 * 2 * 50 * 7
    )  # seven pairs
    fallbacks = [best_response.sigma_of(tree, [caller(game)] * 2)]
    bound = local_best_response(
        game, UniformPolicy(), [caller(game)], 2_000, np.random.default_rng(2), 50
    )
    exact = mean_of_seats(exact_local_best_response, tree, tree.uniform(), fallbacks)
    assert abs(bound.mean - exact) < 4 * bound.standard_error


def test_what_a_local_best_response_cannot_do_is_refused(rng):
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
def test_a_redealt_game_looks_the_same_to_the_seat(name, options, rng):
    game = overtrick.make(name, **options)
    assert isinstance(game, Redealable)
    dealt, hidden = game.deal(500, rng), False
    for observations, past in wander(game, dealt, UniformPolicy(), rng):
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
    """One information set for each seat, hole card and board."""
    return np.unique(
        np.column_stack([tree.observations.seat, tree.observations.observation[:, :2]]),
        axis=0,
        return_index=True,
    )


@pytest.mark.parametrize(("name", "options"), POKER)
def test_hidden_cards_are_redealt_as_often_as_the_rules_say(whole, name, options, likelihood):
    rng = np.random.default_rng(7)
    game, tree = whole(name, **options)
    deals, probability = game.every_deal()
    place = {tuple(deal): i for i, deal in enumerate(deals.tolist())}
    for (seat, hole, board), row in zip(*views(tree), strict=True):
        possible = deals[:, seat] == hole
        if board >= 0:
            possible &= deals[:, 2] == board
        drawn = game.redeal(select_rows(tree.observations, np.full(5_000, row)), rng)
        counts = np.bincount([place[tuple(d)] for d in drawn.tolist()], minlength=len(deals))
        assert likelihood(counts, probability * possible) > 1e-4


@pytest.mark.parametrize("fold", [True, False])
def test_no_card_of_a_whole_deck_is_dealt_twice(fold, rng, likelihood):
    game = Poker(DECK, fold=fold)
    kinds, copies = (13, 4) if fold else (52, 1)
    for observations, _ in wander(game, game.deal(20_000, rng), caller(game), rng):
        cards = game.redeal(observations, rng)
        assert cards.min() >= 0
        assert cards.max() < kinds
        same = (cards[:, :, None] == cards[:, None, :]).sum(axis=2)
        assert same.max() <= copies
        # dealt anew from hands that were dealt fairly, every column is dealt fairly
        for column in cards.T:
            assert likelihood(np.bincount(column, minlength=kinds), np.full(kinds, 1)) > 1e-4
        paired = (cards[:, 0] == cards[:, 1]).sum()
        chance = (copies - 1) / 51
        assert likelihood([paired, len(cards) - paired], [chance, 1 - chance]) > 1e-4
