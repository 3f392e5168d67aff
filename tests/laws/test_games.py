"""Laws of every game with discrete actions. Every registered game is tested; games with real-valued
actions are in test_continuous_games.py."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import overtrick
from overtrick.core import (
    CHANCE,
    Enumerable,
    Game,
    Observations,
    Redealable,
    TreeNodes,
    UserError,
    WalkedGame,
    select_rows,
)
from overtrick.games import observation_validation, registry
from overtrick.games.poker import enumerable_game, rules
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.games.poker.game import Poker
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build, tree_from_nodes

GAMES = [
    *((name, {}) for name in overtrick.names() if overtrick.make(name).actions is not None),
    ("leduc_textbook", {"fold": False}),
    ("holdem", {"view": "strength"}),
]
SMALL = [(name, options) for name, options in GAMES if isinstance(overtrick.make(name), Enumerable)]
POKER = [(name, options) for name, options in SMALL if isinstance(overtrick.make(name), Poker)]
WANDERED = 40_000  # enough games to reach every information set of every small game here
WANDERED_LARGE = 4_000
LONGEST = 52 + 60  # turns: the cards of bridge, after a random auction


def label(name_and_options):
    name, options = name_and_options
    return name + "".join(f"-{key}-{option}" for key, option in options.items())


@pytest.fixture(scope="module", params=GAMES, ids=label)
def name_and_options(request):
    """Return the name of a game and its options."""
    return request.param


@pytest.fixture(scope="module")
def game(name_and_options):
    name, options = name_and_options
    return overtrick.make(name, **options)


@pytest.fixture(scope="module")
def game_with_tree(name_and_options, game_and_tree):
    """Return a small game and its tree."""
    name, options = name_and_options
    return game_and_tree(name, **options)


small = pytest.mark.parametrize("name_and_options", SMALL, indirect=True, ids=label, scope="module")
"""Laws of games whose deals can all be listed."""


def random_turns(game, deals, rng):
    """Play some deals at random; yield the observations and the points (G, S) of each turn."""
    state = game.start(deals)
    moments = []
    while len(observations := game.observe(state)):
        assert len(moments) < LONGEST, "the games do not end"
        action = sample_actions(UniformPolicy().probs(observations), rng).action
        moments.append((observations, game.step(state, observations, action)))
    return moments


@pytest.fixture(scope="module")
def random_games(game, sample_deals):
    """Play many random games."""
    rng = np.random.default_rng(3)
    count = WANDERED if isinstance(game, Enumerable) else WANDERED_LARGE
    count = count // 8 if game.name == "bridge" else count  # its games are long
    return random_turns(game, sample_deals(game, count, rng), rng)


def games_in(moments):
    """Return the number of games that were played."""
    return len(moments[0][1])


def all_rows(moments):
    """Return seat, observation, legal and infoset of all rows of all turns."""
    turns = [observations for observations, _ in moments]
    return [
        np.concatenate([getattr(t, name) for t in turns])
        for name in ("seat", "observation", "legal", "infoset")
    ]


def test_observations_determine_the_seat_the_legal_actions_and_the_information_set(
    game, random_games
):
    for observations, _ in random_games:
        contents = observation_validation.validated_observations(
            game, observations.observation[:100]
        )
        for name in ("seat", "observation", "legal", "infoset"):
            theirs, ours = getattr(observations, name), getattr(contents, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or np.array_equal(ours, theirs[:100])


def test_impossible_observations_are_refused(game, random_games, rng):
    """Change one field of an observation to any value: it is refused, or another row has this
    observation."""
    refused = 0
    for _ in range(300):
        observations, _ = random_games[rng.integers(len(random_games))]
        changed_observation = observations.observation[[rng.integers(len(observations))]].astype(
            np.int64
        )
        largest = 10 ** rng.integers(1, 16)
        changed_observation[0, rng.integers(len(game.observation_fields))] = rng.integers(
            -largest, largest
        )
        with contextlib.suppress(UserError):
            assert np.array_equal(
                observation_validation.validated_observations(
                    game, changed_observation
                ).observation,
                changed_observation,
            )
            continue
        refused += 1
    assert refused > 250


def fields(state):
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


def same_fields(a, b):
    return all(np.array_equal(fields(a)[name], fields(b)[name]) for name in fields(a))


def play_pure_strategies(game, tree, rng, strategies=25):
    """Play every deal with random pure strategies, all deals of a strategy side by side.

    A pure strategy depends on the information set alone, so two deals are played alike until a seat
    observes a difference. Yields for each row of each turn: the public history of the game so far,
    its deal, the number of its revealed columns, the observations, and the row.
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


def row_contents(game, observations, row):
    """Return the seat, observation, legal actions, information set and features of a row."""
    one = select_rows(observations, np.array([row]))
    contents = [one.seat, one.observation, one.legal, one.infoset, game.features(one)]
    return tuple(tuple(array.ravel().tolist()) for array in contents)


def test_a_game_has_every_member_of_the_protocol(game):
    assert isinstance(game, Game)
    assert isinstance(game, Redealable | WalkedGame)  # moves are hidden, but no deal
    assert isinstance(game, Enumerable) == (game.infosets is not None)
    assert len(game.action_names) == game.actions
    assert game.unit


def test_a_pickled_game_plays_the_same(game, sample_deals):
    again = pickle.loads(pickle.dumps(game))
    policies = [UniformPolicy()] * game.seats
    one, two = (
        play(each, policies, sample_deals(each, 200, rng), rng)
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
def test_the_minimum_size_of_a_tree_is_known_before_any_deal(game_with_tree):
    game, tree = game_with_tree
    assert 0 < game.min_tree_size <= tree.nodes
    if isinstance(game, EnumerablePoker) and game.kinds == game.deck:
        assert game.min_tree_size == (tree.seat != CHANCE).sum()


@small
def test_deals_have_the_probabilities_of_every_deal(game, rng, chi_square_p):
    deals, probability = game.every_deal()
    drawn = game.deal(20_000, rng)
    place = {tuple(deal): i for i, deal in enumerate(deals.tolist())}
    counts = np.bincount([place[tuple(d)] for d in drawn.tolist()], minlength=len(deals))
    assert chi_square_p(counts, probability) > 1e-4


def test_every_game_ends_with_payoffs_that_sum_to_zero(game, random_games):
    payoff = sum(gain for _, gain in random_games)  # random_turns() has checked that they end
    assert payoff.shape == (games_in(random_games), game.seats)
    assert np.isfinite(payoff).all()
    assert np.abs(payoff.sum(axis=1)).max() < 1e-12
    assert (np.abs(payoff).max(axis=0) > 0).all()


def test_points_are_gained_only_in_games_with_an_action(random_games):
    for observations, gain in random_games:
        still = np.setdiff1d(np.arange(games_in(random_games)), observations.game)
        assert not gain[still].any()


def test_a_seat_acts_at_most_once_a_turn_and_always_can(game, random_games):
    for observations, _ in random_games:
        assert len(np.unique(observations.game * game.seats + observations.seat)) == len(
            observations
        )
        assert ((observations.seat >= 0) & (observations.seat < game.seats)).all()
        assert observations.observation.shape == (len(observations), len(game.observation_fields))
        assert np.issubdtype(observations.observation.dtype, np.integer)
        assert observations.legal.shape == (len(observations), game.actions)
        assert observations.legal.dtype == bool
        assert observations.legal.any(axis=1).all()


def test_a_finished_game_has_no_observations(random_games):
    acts = [
        np.isin(np.arange(games_in(random_games)), observations.game)
        for observations, _ in random_games
    ]
    for before, after in itertools.pairwise(acts):
        assert not (after & ~before).any()


def test_an_illegal_action_is_refused_and_changes_nothing(game, sample_deals, rng):
    state = game.start(sample_deals(game, 50, rng))
    while len(observations := game.observe(state)):
        untouched = copy.deepcopy(state)
        fine = sample_actions(UniformPolicy().probs(observations), rng).action
        row = int(rng.integers(len(observations)))
        for wrong in [-1, game.actions, *np.flatnonzero(~observations.legal[row])]:
            action = fine.copy()
            action[row] = wrong
            with pytest.raises(ValueError, match="illegal action"):
                game.step(state, observations, action)
            assert same_fields(state, untouched)
        game.step(state, observations, fine)


@small
def test_information_sets_are_numbered_without_gaps(game_with_tree, random_games):
    game, tree = game_with_tree
    _, _, _, infoset = all_rows(random_games)
    assert set(infoset) <= set(range(game.infosets))
    assert np.array_equal(np.unique(tree.infoset[tree.seat >= 0]), np.arange(game.infosets))


@small
def test_an_information_set_is_one_observation_of_one_seat(game_with_tree, random_games):
    game, tree = game_with_tree
    seat, observed, legal, infoset = all_rows(random_games)
    assert tree.infosets == game.infosets
    assert np.array_equal(tree.observations.seat[infoset], seat)
    assert np.array_equal(tree.observations.observation[infoset], observed)
    assert np.array_equal(tree.observations.legal[infoset], legal)
    sights = np.concatenate(
        [tree.observations.seat[:, None], tree.observations.observation], axis=1
    )
    # two information sets never have the same observation
    assert len(np.unique(sights, axis=0)) == tree.infosets


def test_features_are_a_function_of_each_row_with_constant_width(game, random_games):
    widths = set()
    for observations, _ in random_games:
        features = game.features(observations)
        widths.add(features.shape[1:])
        assert features.dtype == np.float32
        assert len(features) == len(observations)
        assert np.isfinite(features).all()
        some = np.arange(len(observations))[::-7]
        assert np.array_equal(game.features(select_rows(observations, some)), features[some])
    assert len(widths) == 1


@small
def test_observations_depend_only_on_revealed_columns(game_with_tree, rng):
    game, tree = game_with_tree
    first_contents = {}
    for history, deal, shown, observations, row in play_pure_strategies(game, tree, rng):
        key = history, deal[:shown], int(observations.seat[row])
        contents = row_contents(game, observations, row)
        assert first_contents.setdefault(key, contents) == contents


@pytest.mark.parametrize("name", ["kuhn", "kuhn_three", "leduc"])
@pytest.mark.parametrize("fold", [True, False])
def test_a_deal_of_a_large_deck_is_the_one_at_its_place_in_the_list(monkeypatch, name, fold):
    game = overtrick.make(name, fold=fold)
    places = np.arange(len(game._equal_deals))
    assert np.array_equal(game._deals_at(places), game._equal_deals)
    listed = game.deal(1000, np.random.default_rng(4))
    monkeypatch.setattr(enumerable_game, "MOST_LISTED", 0)
    assert np.array_equal(game.deal(1000, np.random.default_rng(4)), listed)


@pytest.mark.parametrize("name_and_options", POKER, ids=label)
def test_a_seat_never_observes_the_other_seats_card(name_and_options, game_and_tree, rng):
    name, options = name_and_options
    game, tree = game_and_tree(name, **options)
    first_contents, others = {}, {}
    for history, deal, shown, observations, row in play_pure_strategies(game, tree, rng):
        seat = int(observations.seat[row])
        key = history, deal[seat], deal[game.seats : shown], seat
        contents = row_contents(game, observations, row)
        assert first_contents.setdefault(key, contents) == contents
        others.setdefault(key, set()).add(deal[1 - seat])
    assert sum(len(cards) > 1 for cards in others.values()) > len(others) / 4


@small
def test_mean_payoffs_of_random_games_equal_the_trees_values(game_with_tree, random_games):
    """The engine that plays is the engine from which the tree was built."""
    _, tree = game_with_tree
    payoff = sum(gain for _, gain in random_games)
    error = payoff.std(axis=0, ddof=1) / np.sqrt(len(payoff))
    gap = payoff.mean(axis=0) - best_response.expected(tree, tree.uniform())
    assert (np.abs(gap) < 5 * error).all()


class ImperfectRecall(EnumerablePoker):
    """Kuhn poker in which seat 0 forgets its card when it must answer a bet."""

    def __init__(self):
        super().__init__(rules.KUHN)
        # nodes in preorder: the start, after pass, after pass and bet, after bet, with 3 cards each
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


class UnrevealedCard(EnumerablePoker):
    """Kuhn poker in which seat 1 observes its card although it is never revealed."""

    def revealed_columns(self, state):
        return super().revealed_columns(state) - 1


class UnreachedInfoset(EnumerablePoker):
    """Kuhn poker with an information set that is never reached."""

    def __init__(self):
        super().__init__(rules.KUHN)
        self.infosets += 1


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (ImperfectRecall(), "forgets what it knew or did"),
        (UnrevealedCard(rules.KUHN), "observes a chance outcome before it is revealed"),
        (UnreachedInfoset(), "declares 13 information sets but has 12"),
    ],
    ids=["forgetful", "peeking", "miscounting"],
)
def test_a_game_that_breaks_these_laws_has_no_tree(game, reason):
    with pytest.raises(ValueError, match=reason):
        build(game)


def test_a_tree_whose_nodes_of_one_information_set_have_different_actions_is_refused(game_and_tree):
    _, tree = game_and_tree("kuhn")
    nodes = TreeNodes(**{name: getattr(tree, name) for name in TreeNodes.__dataclass_fields__})
    last = np.flatnonzero(tree.seat >= 0)[-1]
    edge = tree.edge.copy()
    edge[tree.parent == last] = edge[tree.parent == last][::-1]
    assert tree_from_nodes(nodes, "kuhn").nodes == tree.nodes
    with pytest.raises(UserError, match="kuhn: the legal actions differ within one information"):
        tree_from_nodes(replace(nodes, edge=edge), "kuhn")


def test_selected_games_are_copies(game, sample_deals, rng):
    state = game.start(sample_deals(game, 60, rng))
    while len(observations := game.observe(state)):
        before = copy.deepcopy(state)
        rows = np.concatenate([np.arange(60)[::-1], [5, 5]])  # in any order, and some twice
        taken = select_rows(state, rows)
        assert same_fields(before, select_rows(taken, np.arange(60)[::-1]))
        twin = game.observe(taken)
        if len(twin):
            game.step(taken, twin, sample_actions(UniformPolicy().probs(twin), rng).action)
        assert same_fields(state, before)
        game.step(
            state, observations, sample_actions(UniformPolicy().probs(observations), rng).action
        )


@small
def test_a_game_describes_observations(game_with_tree):
    game, tree = game_with_tree
    assert game.hand(tree.observations).shape == (tree.infosets,)
    words = [game.describe(observed) for observed in tree.observations.observation]
    assert all(words)
    if getattr(game, "fold", True):  # descriptions do not distinguish suits
        assert len(set(words)) == tree.infosets


def test_nine_different_cards_are_dealt_from_a_fair_deck(rng, chi_square_p):
    deals = overtrick.make("holdem").deal(30_000, rng)
    assert deals.shape == (30_000, 9)
    ascending = np.sort(deals, axis=1)
    assert (np.diff(ascending, axis=1) > 0).all()
    for column in deals.T:
        assert chi_square_p(np.bincount(column, minlength=52), np.full(52, 1 / 52)) > 1e-4
    distance = (deals[:, 1] - deals[:, 0]) % 52  # each with the same probability
    assert chi_square_p(np.bincount(distance, minlength=52), np.arange(52) > 0) > 1e-4


def test_two_hole_cards_and_a_board_have_a_description():
    game = overtrick.make("holdem")
    deck = {game.card_name(card): card for card in range(52)}
    assert len(deck) == 52
    deal = [deck[card] for card in ["Kh", "Ah", "7c", "7d", "2s", "9h", "Ts", "Jd", "Ac"]]
    state = game.start(np.array([deal]))
    descriptions, hands = [], []
    for action in ("call", "check", "raise", "call", "check", "check", "fold"):
        observations = game.observe(state)
        descriptions.append(game.describe(observations.observation[0]))
        hands.extend(game.hand(observations))
        game.step(state, observations, np.array([game.action_names.index(action)]))
    assert descriptions[:2] == ["Kh Ah after nothing", "7c 7d after call"]
    assert descriptions[2] == "Kh Ah on 2s 9h Ts after call, check"
    assert descriptions[-1].startswith("Kh Ah on 2s 9h Ts Jd Ac after call, check, raise, call")
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


def test_a_game_that_is_not_zero_sum_is_refused_where_one_is_needed():
    class Shared:
        name, zero_sum = "shared", False

    with pytest.raises(UserError, match=r"shared do not sum to zero: choose a zero-sum game$"):
        registry.check_zero_sum(Shared())
    with pytest.raises(UserError, match=r"sumo do not sum to zero: set its reward to result$"):
        registry.check_zero_sum(overtrick.make("sumo"))
    registry.check_zero_sum(overtrick.make("kuhn"))


@pytest.mark.parametrize(("name", "least"), [("one_card", 2), ("kuhn_three", 3), ("leduc", 2)])
def test_a_deck_has_enough_cards(name, least):
    assert overtrick.make(name, ranks=least).infosets > 0
    with pytest.raises(UserError, match=f"ranks must be {least} or more, not {least - 1}"):
        overtrick.make(name, ranks=least - 1)


def test_the_ranks_of_another_deck_are_numbered_from_1():
    assert overtrick.make("leduc", ranks=5).rules.rank_names == ("1", "2", "3", "4", "5")


def test_only_poker_bridge_and_sumo_have_scripted_players():
    for name in overtrick.names():
        game = overtrick.make(name)
        first_contents = isinstance(game, Poker) or name in ("minibridge", "bridge", "sumo")
        assert bool(registry.scripted_players(game)) == first_contents


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "new_game.py"


def installed_package(folder, points, **modules):
    """Write the files of an installed package with entry points, and return a function that runs a
    program beside it."""
    about = folder / "dice-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dice\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(points)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)

    def run(program):
        source = f"import sys; sys.path.insert(0, {str(folder)!r}); {program}"
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=False
        )
        return (done.stdout + done.stderr).strip().splitlines()[-1]

    return run


def test_another_package_adds_a_game_and_a_trainer(tmp_path):
    spec = "\nfrom overtrick.games.spec import GameSpec\nSPEC = GameSpec('dice_poker', DicePoker)\n"
    game = EXAMPLE.read_text().partition("\nsolution =")[0] + spec
    trainer = "from overtrick.training.tournament import TournamentTrainer, TournamentJob\n"
    trainer += "from overtrick.training.base_trainer import register\n"
    trainer += "register('dice', TournamentJob, len)(TournamentTrainer)\n"
    points = "[overtrick.games]\na = dice_game:SPEC\n[overtrick.trainers]\nb = dice_trainer\n"
    run = installed_package(tmp_path, points, dice_game=game, dice_trainer=trainer)
    play_it = "print(overtrick.play('dice_poker', ['random', 'random'], 9).payoff.shape)"
    assert run(f"import overtrick; {play_it}") == "(9, 2)"
    assert run("from overtrick.training.registry import JOBS; print('dice' in JOBS)") == "True"


def test_a_broken_entry_point_names_its_package(tmp_path):
    run = installed_package(tmp_path, "[overtrick.games]\na = no_such_module:SPEC\n")
    line = run("import overtrick; overtrick.make('dice_poker')")
    assert "dice adds 'a' to overtrick.games, but no_such_module:SPEC cannot be imported" in line
    assert run("import overtrick; print(overtrick.make('kuhn').name)") == "kuhn"
