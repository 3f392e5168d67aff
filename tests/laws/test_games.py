"""Laws that every game of single actions obeys, whatever its rules. A new game is under them by its
registry line; those of games that move by real vectors are in test_continuous_games.py."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle

import numpy as np
import pytest

import overtrick
from overtrick.core import (
    CHANCE,
    Enumerable,
    Game,
    Observations,
    Redealable,
    UserError,
    select_rows,
)
from overtrick.games import observation_checks, registry
from overtrick.games.poker import rules
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.games.poker.game import Poker
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build

GAMES = [
    *((name, {}) for name in overtrick.names() if overtrick.make(name).actions is not None),
    ("leduc_textbook", {"fold": False}),
    ("holdem", {"view": "strength"}),
]
SMALL = [(name, options) for name, options in GAMES if isinstance(overtrick.make(name), Enumerable)]
POKER = [(name, options) for name, options in SMALL if isinstance(overtrick.make(name), Poker)]
WANDERED = 40_000  # games: enough to come to every information set of every small game here
WANDERED_LARGE = 4_000
LONGEST = 52  # turns


def label(which):
    name, options = which
    return name + "".join(f"-{key}-{option}" for key, option in options.items())


@pytest.fixture(scope="module", params=GAMES, ids=label)
def which(request):
    """The name of a game and its options."""
    return request.param


@pytest.fixture(scope="module")
def game(which):
    name, options = which
    return overtrick.make(name, **options)


@pytest.fixture(scope="module")
def unrolled(which, whole):
    """A game that is small enough, and its tree."""
    name, options = which
    return whole(name, **options)


small = pytest.mark.parametrize("which", SMALL, indirect=True, ids=label, scope="module")
"""Laws of games of which every deal can be listed."""


def wander(game, deals, rng):
    """Uniformly random play of some deals: each turn and the points (G, S) that it gained."""
    state = game.start(deals)
    moments = []
    while len(observations := game.observe(state)):
        assert len(moments) < LONGEST, "the games do not end"
        action = sample_actions(UniformPolicy().probs(observations), rng).action
        moments.append((observations, game.step(state, observations, action)))
    return moments


@pytest.fixture(scope="module")
def wandered(game, dealt):
    """Many random games."""
    rng = np.random.default_rng(3)
    count = WANDERED if isinstance(game, Enumerable) else WANDERED_LARGE
    return wander(game, dealt(game, count, rng), rng)


def games_of(moments):
    """How many games were wandered through."""
    return len(moments[0][1])


def rows_of(moments):
    """All rows of all turns: seat, seen, legal, infoset."""
    turns = [observations for observations, _ in moments]
    return [
        np.concatenate([getattr(t, name) for t in turns])
        for name in ("seat", "observation", "legal", "infoset")
    ]


def test_facts_alone_tell_who_acts_what_is_legal_and_which_information_set(game, wandered):
    for observations, _ in wandered:
        told = observation_checks.validated_observations(game, observations.observation[:100])
        for name in ("seat", "observation", "legal", "infoset"):
            theirs, ours = getattr(observations, name), getattr(told, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or np.array_equal(ours, theirs[:100])


def test_facts_that_do_not_fit_are_refused_before_a_kernel_sees_them(game, wandered, rng):
    """A fact that is changed to anything: refused, or somebody else sees just that."""
    refused = 0
    for _ in range(300):
        observations, _ = wandered[rng.integers(len(wandered))]
        facts = observations.observation[[rng.integers(len(observations))]].astype(np.int64)
        largest = 10 ** rng.integers(1, 16)
        facts[0, rng.integers(len(game.observation_fields))] = rng.integers(-largest, largest)
        with contextlib.suppress(UserError):
            assert np.array_equal(
                observation_checks.validated_observations(game, facts).observation, facts
            )
            continue
        refused += 1
    assert refused > 250


def fields(state):
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


def same(a, b):
    return all(np.array_equal(fields(a)[name], fields(b)[name]) for name in fields(a))


def pure_play(game, tree, rng, strategies=25):
    """Every deal played by random pure strategies, all deals of a strategy side by side.

    A pure strategy looks at nothing but the information set, so that two deals in which nobody
    sees a difference are played alike. Yields each turn row by row: the public history of the
    game so far, its deal, the number of its columns that are shown, the turn, and the row.
    """
    deals, _ = game.every_deal()
    for _ in range(strategies):
        strategy = sample_actions(tree.uniform(), rng).action
        state = game.start(deals)
        history = [()] * len(deals)
        while len(observations := game.observe(state)):
            shown = game.revealed_columns(state)
            for row, g in enumerate(observations.game):
                yield history[g], tuple(deals[g].tolist()), int(shown[g]), observations, row
            action = strategy[observations.infoset]
            for g, seat, a in zip(observations.game, observations.seat, action, strict=True):
                history[g] += ((int(seat), int(a)),)
            game.step(state, observations, action)


def sight(game, observations, row):
    """All that the game tells one row."""
    one = select_rows(observations, np.array([row]))
    told = [one.seat, one.observation, one.legal, one.infoset, game.features(one)]
    return tuple(tuple(array.ravel().tolist()) for array in told)


def test_a_game_gives_all_that_the_protocol_names(game):
    assert isinstance(game, Game)
    assert isinstance(game, Redealable)
    assert isinstance(game, Enumerable) == (game.infosets is not None)
    assert len(game.action_names) == game.actions
    assert game.unit


def test_a_game_that_was_pickled_plays_the_same(game, dealt):
    again = pickle.loads(pickle.dumps(game))
    policies = [UniformPolicy()] * game.seats
    one, two = (
        play(each, policies, dealt(each, 200, rng), rng)
        for each, rng in ((game, np.random.default_rng(1)), (again, np.random.default_rng(1)))
    )
    assert (again.name, again.observation_fields, again.infosets) == (
        game.name,
        game.observation_fields,
        game.infosets,
    )
    assert np.array_equal(one.payoff, two.payoff)
    for name in (
        "game",
        "seat",
        "observation",
        "legal",
        "infoset",
        "action",
        "logp",
        "reward",
        "last",
    ):
        assert np.array_equal(getattr(one.batch, name), getattr(two.batch, name)), name
    assert np.array_equal(
        game.features(one.batch.observations()), again.features(two.batch.observations())
    )


def test_the_same_seed_deals_the_same_cards(game):
    one, two = (game.deal(500, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one, two)
    assert not isinstance(game, Enumerable) or one.shape[1] == game.every_deal()[0].shape[1]


@small
def test_every_deal_is_distinct_and_their_probabilities_sum_to_one(game):
    deals, probability = game.every_deal()
    assert len(np.unique(deals, axis=0)) == len(deals)
    assert (probability > 0).all()
    assert abs(probability.sum() - 1) < 1e-12


@small
def test_the_least_size_of_a_tree_is_known_before_any_deal(unrolled):
    game, tree = unrolled
    assert 0 < game.min_tree_size <= tree.nodes
    if isinstance(game, EnumerablePoker) and game.kinds == game.deck:
        assert game.min_tree_size == (tree.seat != CHANCE).sum()


@small
def test_deals_come_as_often_as_every_deal_says(game, rng, likelihood):
    deals, probability = game.every_deal()
    drawn = game.deal(20_000, rng)
    place = {tuple(deal): i for i, deal in enumerate(deals.tolist())}
    counts = np.bincount([place[tuple(d)] for d in drawn.tolist()], minlength=len(deals))
    assert likelihood(counts, probability) > 1e-4


def test_every_game_comes_to_an_end_for_everyone_at_zero_sum(game, wandered):
    payoff = sum(gain for _, gain in wandered)  # that they end, wander() saw
    assert payoff.shape == (games_of(wandered), game.seats)
    assert np.isfinite(payoff).all()
    assert np.abs(payoff.sum(axis=1)).max() < 1e-12
    assert (np.abs(payoff).max(axis=0) > 0).all()


def test_points_are_gained_only_in_games_that_moved(wandered):
    for observations, gain in wandered:
        still = np.setdiff1d(np.arange(games_of(wandered)), observations.game)
        assert not gain[still].any()


def test_a_seat_acts_at_most_once_a_turn_and_always_can(game, wandered):
    for observations, _ in wandered:
        assert len(np.unique(observations.game * game.seats + observations.seat)) == len(
            observations
        )
        assert ((observations.seat >= 0) & (observations.seat < game.seats)).all()
        assert observations.observation.shape == (len(observations), len(game.observation_fields))
        assert np.issubdtype(observations.observation.dtype, np.integer)
        assert observations.legal.shape == (len(observations), game.actions)
        assert observations.legal.dtype == bool
        assert observations.legal.any(axis=1).all()


def test_a_game_that_is_over_has_no_more_turns(wandered):
    acts = [
        np.isin(np.arange(games_of(wandered)), observations.game) for observations, _ in wandered
    ]
    for before, after in itertools.pairwise(acts):
        assert not (after & ~before).any()


def test_an_illegal_action_is_refused_and_changes_nothing(game, dealt, rng):
    state = game.start(dealt(game, 50, rng))
    while len(observations := game.observe(state)):
        untouched = copy.deepcopy(state)
        fine = sample_actions(UniformPolicy().probs(observations), rng).action
        row = int(rng.integers(len(observations)))
        for wrong in [-1, game.actions, *np.flatnonzero(~observations.legal[row])]:
            action = fine.copy()
            action[row] = wrong
            with pytest.raises(ValueError, match="illegal action"):
                game.step(state, observations, action)
            assert same(state, untouched)
        game.step(state, observations, fine)


@small
def test_information_sets_are_numbered_without_gaps(unrolled, wandered):
    game, tree = unrolled
    _, _, _, infoset = rows_of(wandered)
    assert set(infoset) <= set(range(game.infosets))
    assert np.array_equal(np.unique(tree.infoset[tree.seat >= 0]), np.arange(game.infosets))


@small
def test_an_information_set_is_what_a_seat_sees(unrolled, wandered):
    game, tree = unrolled
    seat, seen, legal, infoset = rows_of(wandered)
    assert tree.infosets == game.infosets
    assert np.array_equal(tree.observations.seat[infoset], seat)
    assert np.array_equal(tree.observations.observation[infoset], seen)
    assert np.array_equal(tree.observations.legal[infoset], legal)
    sights = np.concatenate(
        [tree.observations.seat[:, None], tree.observations.observation], axis=1
    )
    assert len(np.unique(sights, axis=0)) == tree.infosets  # two sets never look the same


def test_features_are_a_function_of_each_row_with_constant_width(game, wandered):
    widths = set()
    for observations, _ in wandered:
        features = game.features(observations)
        widths.add(features.shape[1:])
        assert features.dtype == np.float32
        assert len(features) == len(observations)
        assert np.isfinite(features).all()
        some = np.arange(len(observations))[::-7]
        assert np.array_equal(game.features(select_rows(observations, some)), features[some])
    assert len(widths) == 1


@small
def test_nobody_sees_what_the_deal_has_not_shown(unrolled, rng):
    game, tree = unrolled
    known = {}
    for history, deal, shown, observations, row in pure_play(game, tree, rng):
        key = history, deal[:shown], int(observations.seat[row])
        told = sight(game, observations, row)
        assert known.setdefault(key, told) == told


@pytest.mark.parametrize("which", POKER, ids=label)
def test_a_seat_never_sees_the_other_seats_card(which, whole, rng):
    name, options = which
    game, tree = whole(name, **options)
    known, others = {}, {}
    for history, deal, shown, observations, row in pure_play(game, tree, rng):
        seat = int(observations.seat[row])
        key = history, deal[seat], deal[game.seats : shown], seat
        told = sight(game, observations, row)
        assert known.setdefault(key, told) == told
        others.setdefault(key, set()).add(deal[1 - seat])
    assert sum(len(cards) > 1 for cards in others.values()) > len(others) / 4


@small
def test_random_games_win_what_the_exact_solver_expects(unrolled, wandered):
    """The engine that plays is the engine from which the tree was built."""
    _, tree = unrolled
    payoff = sum(gain for _, gain in wandered)
    error = payoff.std(axis=0, ddof=1) / np.sqrt(len(payoff))
    gap = payoff.mean(axis=0) - best_response.expected(tree, tree.uniform())
    assert (np.abs(gap) < 5 * error).all()


class Forgetful(EnumerablePoker):
    """Kuhn poker in which seat 0 no longer knows its card when it has to answer a bet."""

    def __init__(self):
        super().__init__(rules.KUHN)
        # nodes in preorder: the start, after pass, after pass and bet, after bet: 3 cards each
        self.infosets = 10

    def observe(self, state):
        observations = super().observe(state)
        answers, later = observations.infoset // 3 == 2, observations.infoset // 3 == 3
        infoset = np.where(
            answers, 6, np.where(later, observations.infoset - 2, observations.infoset)
        )
        return Observations(
            observations.game,
            observations.seat,
            observations.observation,
            observations.legal,
            infoset,
        )


class Peeking(EnumerablePoker):
    """Kuhn poker that says that the second seat's card is never shown, and shows it to its seat."""

    def revealed_columns(self, state):
        return super().revealed_columns(state) - 1


class Miscounting(EnumerablePoker):
    """Kuhn poker with an information set that nobody ever comes to."""

    def __init__(self):
        super().__init__(rules.KUHN)
        self.infosets += 1


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (Forgetful(), "forgets what it knew or did"),
        (Peeking(rules.KUHN), "observes a chance outcome before it is revealed"),
        (Miscounting(), "declares 13 information sets but has 12"),
    ],
    ids=["forgetful", "peeking", "miscounting"],
)
def test_a_game_that_breaks_these_laws_has_no_tree(game, reason):
    with pytest.raises(ValueError, match=reason):
        build(game)


def test_taken_games_are_copies(game, dealt, rng):
    state = game.start(dealt(game, 60, rng))
    while len(observations := game.observe(state)):
        before = copy.deepcopy(state)
        rows = np.concatenate([np.arange(60)[::-1], [5, 5]])  # in any order, and some twice
        taken = select_rows(state, rows)
        assert same(before, select_rows(taken, np.arange(60)[::-1]))
        twin = game.observe(taken)
        if len(twin):
            game.step(taken, twin, sample_actions(UniformPolicy().probs(twin), rng).action)
        assert same(state, before)
        game.step(
            state, observations, sample_actions(UniformPolicy().probs(observations), rng).action
        )


@small
def test_a_game_has_words_for_what_a_seat_sees(unrolled):
    game, tree = unrolled
    assert game.hand(tree.observations).shape == (tree.infosets,)
    words = [game.describe(seen) for seen in tree.observations.observation]
    assert all(words)
    if getattr(game, "fold", True):  # words do not tell suits apart
        assert len(set(words)) == tree.infosets


def test_nine_different_cards_are_dealt_from_a_fair_deck(rng, likelihood):
    deals = overtrick.make("holdem").deal(30_000, rng)
    assert deals.shape == (30_000, 9)
    ascending = np.sort(deals, axis=1)
    assert (np.diff(ascending, axis=1) > 0).all()
    for column in deals.T:
        assert likelihood(np.bincount(column, minlength=52), np.full(52, 1 / 52)) > 1e-4
    distance = (deals[:, 1] - deals[:, 0]) % 52  # any but none, and all alike
    assert likelihood(np.bincount(distance, minlength=52), np.arange(52) > 0) > 1e-4


def test_two_hole_cards_and_a_board_have_words():
    game = overtrick.make("holdem")
    deck = {game.card_name(card): card for card in range(52)}
    assert len(deck) == 52
    deal = [deck[card] for card in ["Kh", "Ah", "7c", "7d", "2s", "9h", "Ts", "Jd", "Ac"]]
    state = game.start(np.array([deal]))
    said, hands = [], []
    for action in ("call", "check", "raise", "call", "check", "check", "fold"):
        observations = game.observe(state)
        said.append(game.describe(observations.observation[0]))
        hands.extend(game.hand(observations))
        game.step(state, observations, np.array([game.action_names.index(action)]))
    assert said[:2] == ["Kh Ah after nothing", "7c 7d after call"]
    assert said[2] == "Kh Ah on 2s 9h Ts after call, check"
    assert said[-1].startswith("Kh Ah on 2s 9h Ts Jd Ac after call, check, raise, call")
    assert hands == ["AKs", "77"] * 3 + ["AKs"]
    names = set(
        game.hand(Observations(None, None, np.indices((52, 52)).reshape(2, -1).T, None, None))
    )
    assert len(names) == 169
    with pytest.raises(UserError, match="a flush tells suits apart"):
        overtrick.make("holdem", fold=True)
    with pytest.raises(UserError, match="13 ranks in 4 suits"):
        overtrick.make("holdem", ranks=6)


def test_an_unknown_game_or_option_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="unknown game 'leduk': did you mean 'leduc'"):
        overtrick.make("leduk")
    with pytest.raises(UserError, match="game 'kuhn' has no option 'folds': did you mean 'fold'"):
        overtrick.make("kuhn", folds=True)


@pytest.mark.parametrize(("name", "least"), [("one_card", 2), ("kuhn_three", 3), ("leduc", 2)])
def test_a_deck_has_a_card_for_every_place(name, least):
    assert overtrick.make(name, ranks=least).infosets > 0
    with pytest.raises(UserError, match=f"ranks must be {least} or more, not {least - 1}"):
        overtrick.make(name, ranks=least - 1)


def test_poker_bridge_and_sumo_have_scripted_players_and_no_other_game():
    for name in overtrick.names():
        game = overtrick.make(name)
        known = isinstance(game, Poker) or name in ("minibridge", "sumo")
        assert bool(registry.scripted_players(game)) == known
