"""Phantom tic-tac-toe and dark hex against OpenSpiel, and their exact evaluation against published
numbers of histories and a walk over all histories of small boards."""

from __future__ import annotations

import copy
from collections import defaultdict
from functools import cache

import numpy as np
import pyspiel
import pytest
from tests.walks import random_strategy, walk_over

from overtrick import make
from overtrick.core import UserError
from overtrick.evaluation import exact_by_walks
from overtrick.games.phantom import PhantomBoard, hex_wins, tic_tac_toe_wins
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.weights import stack
from overtrick.policies.batched_networks import NetworkMixture
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.walks import exact_evaluation, numbering_cache
from overtrick.solvers.walks.phantom_walk import PhantomWalk, number_views

TWINS = {
    "phantom_ttt": "phantom_ttt",
    "abrupt_phantom_ttt": "phantom_ttt(gameversion=abrupt)",
    "dark_hex_3": "dark_hex(num_rows=3,num_cols=3,gameversion=cdh)",
    "abrupt_dark_hex_3": "dark_hex(num_rows=3,num_cols=3,gameversion=adh)",
}
ENDS = {
    "phantom_ttt": 9_829_101_024,
    "abrupt_phantom_ttt": 13_578_403_440,
    "dark_hex_3": 9_469_697_760,
    "abrupt_dark_hex_3": 14_663_760_672,
}
"""Terminal histories; nashbench counts the same."""

WINS = {"line": tic_tac_toe_wins, "hex": hex_wins}


def uneven_wins(_: int) -> np.ndarray:
    """Return winning sets on four cells: three neighbours for seat 0, the last two for seat 1."""
    marks = np.arange(16)
    return np.stack([(marks & 7 == 7) | (marks & 14 == 14), marks & 12 == 12])


SMALL = [(name, abrupt) for name in (*WINS, "uneven") for abrupt in (False, True)]


@pytest.mark.parametrize("name", TWINS)
def test_random_games_are_openspiels(name: str, rng) -> None:
    game, theirs = make(name), pyspiel.load_game(TWINS[name])
    for _ in range(100):
        state, twin, points = game.start(game.deal(1, rng)), theirs.new_initial_state(), np.zeros(2)
        while not twin.is_terminal():
            observations = game.observe(state)
            assert observations.seat.tolist() == [twin.current_player()]
            assert np.flatnonzero(observations.legal[0]).tolist() == twin.legal_actions()
            action = rng.choice(twin.legal_actions())
            twin.apply_action(action)
            points += game.step(state, observations, np.array([action]))[0]
        assert not len(game.observe(state))
        assert points.tolist() == twin.returns()


@cache
def walk_of(name: str) -> PhantomWalk:
    return walk_over(make(name))


@pytest.mark.parametrize(("name", "sets"), [("phantom_ttt", 5_990_669), ("dark_hex_3", 6_072_917)])
def test_the_numbers_of_histories_and_information_sets(name: str, sets: int) -> None:
    walk = walk_of(name)
    assert walk.ends == ENDS[name]
    assert sum(len(views.parent) for views in walk.views) == sets


@pytest.mark.slow
@pytest.mark.parametrize("name", ["abrupt_phantom_ttt", "abrupt_dark_hex_3"])
def test_the_number_of_histories_of_the_abrupt_form(name: str) -> None:
    assert number_views(make(name)).ends == ENDS[name]


def test_uniform_play_earns_the_mean_of_random_games(rng) -> None:
    """Within four standard errors of 20,000 games."""
    walk = walk_of("phantom_ttt")
    game, strategies = walk.game, tuple(map(exact_evaluation.uniform, walk.views))
    exact = exact_evaluation.evaluate(walk, strategies)
    assert exact.values.sum() == pytest.approx(0, abs=1e-9)
    state, points = game.start(game.deal(20_000, rng)), np.zeros(20_000)
    while len(observations := game.observe(state)):
        action = np.argmax(rng.random(observations.legal.shape) * observations.legal, axis=1)
        points += game.step(state, observations, action)[:, 0]
    assert points.mean() == pytest.approx(exact.values[0], abs=4 * points.std() / 20_000**0.5)


def test_a_policy_is_asked_in_every_view() -> None:
    walk = walk_of("dark_hex_3")
    tables = exact_evaluation.tabulate(walk, [UniformPolicy()] * 2)
    for table, views in zip(tables, walk.views, strict=True):
        assert np.array_equal(table, exact_evaluation.uniform(views))


class RandomPolicy(MemorylessPolicy):
    """The random policy of tests/bench/peer_scripts/nashbench_phantom.py."""

    table = np.random.default_rng(20261127).integers(0, 2**16, (9, 9, 2, 9))

    def probs(self, observations) -> np.ndarray:
        seat, attempts = observations.observation[:, :1], observations.observation[:, 1:]
        total = np.zeros(attempts.shape, np.int64)
        for cell in range(9):
            tried = np.flatnonzero(attempts[:, cell])
            number = attempts[tried, cell]
            total[tried] += self.table[np.abs(number) - 1, cell, (number < 0).astype(int)]
        weights = 1 + (total + seat * 7919) % 2**16 * 40503 % 2**16 % 7
        weights = np.where(observations.legal, weights, 0)
        rows, first = np.arange(len(weights)), observations.legal.argmax(axis=1)
        weights[rows, first] = 0
        weights[rows, first] = 64 - weights.sum(axis=1)
        return weights / 64


NASHBENCH = {
    ("phantom_ttt", "uniform"): (0.29682544843330605, 0.9531250386184731, 0.6243386674061325),
    ("phantom_ttt", "random"): (0.38828677530692324, 0.9991760482844043, 0.9544760945082089),
    ("dark_hex_3", "uniform"): (0.3333333962275197, 1.00000007536318, 0.8328042874398514),
    ("dark_hex_3", "random"): (0.28743756329904835, 1.0, 0.9944388728004014),
    ("abrupt_phantom_ttt", "uniform"): (
        0.31627487838956764,
        0.847139567692478,
        0.39152890126704376,
    ),
    ("abrupt_phantom_ttt", "random"): (0.6631273402741787, 0.9935782160213549, 0.926311418992718),
    ("abrupt_dark_hex_3", "uniform"): (0.26692574782787354, 0.9080302205057061, 0.6171792722000369),
    ("abrupt_dark_hex_3", "random"): (0.4238731514651471, 0.9979274631667678, 0.9714841101998886),
}
"""Points of seat 0, and of the best responses of both seats, by nashbench 0.2.0 (its script is
nashbench_phantom.py in tests/bench/peer_scripts). Probabilities are rounded to 32 bits."""

IN_THE_SUITE = ("phantom_ttt", "uniform"), ("dark_hex_3", "random")


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(*key, marks=() if key in IN_THE_SUITE else pytest.mark.slow)
        for key in NASHBENCH
    ],
)
def test_values_and_best_responses_are_those_of_nashbench(name: str, policy: str) -> None:
    walk = walk_of(name)
    asked = UniformPolicy() if policy == "uniform" else RandomPolicy()
    first, second = exact_evaluation.tabulate(walk, [asked] * 2)
    strategies = first.astype(np.float32).astype(float), second.astype(np.float32).astype(float)
    found = exact_evaluation.evaluate(walk, strategies)
    expected = NASHBENCH[name, policy]
    assert (found.values[0], *found.best_response_values) == pytest.approx(expected, abs=1e-9)


class Histories:
    """Second implementation: all histories of a small board, from the rules of the game."""

    def __init__(self, game: PhantomBoard) -> None:
        self.game = game
        self.ends = 0
        self.views: tuple[dict, dict] = ({}, {})  # legal actions of each view of each seat
        self.walk(game.start(game.deal(1, np.random.default_rng(0))))

    def walk(self, state) -> None:
        observations = self.game.observe(state)
        if not len(observations):
            self.ends += 1
            return
        seat, view = int(observations.seat[0]), tuple(observations.observation[0])
        self.views[seat][view] = np.flatnonzero(observations.legal[0]).tolist()
        for action in self.views[seat][view]:
            after = copy.deepcopy(state)
            self.game.step(after, observations, np.array([action]))
            self.walk(after)

    def value(self, strategies, seat: int, best: bool) -> float:
        """Return the points of a seat; best: of its best response, by backward induction."""
        if best:
            strategies = self.best_response(strategies, seat)
        start = self.game.start(self.game.deal(1, np.random.default_rng(0)))
        return self.points(start, strategies, seat)

    def points(self, state, strategies, seat: int) -> float:
        observations = self.game.observe(state)
        if not len(observations):
            return 0.0
        mover, view = int(observations.seat[0]), tuple(observations.observation[0])
        total = 0.0
        for action, chance in strategies[mover][view].items():
            if chance:
                after = copy.deepcopy(state)
                gain = self.game.step(after, observations, np.array([action]))[0, seat]
                total += chance * (gain + self.points(after, strategies, seat))
        return total

    def best_response(self, strategies, seat: int):
        """Return the strategies with the seat's replaced by a best response, last views first."""
        mine = {view: dict.fromkeys(actions, 1.0) for view, actions in self.views[seat].items()}
        mixed = list(strategies)
        mixed[seat] = mine  # every action with weight 1: reach by the other seat alone
        for view in sorted(mine, key=lambda v: -sum(number != 0 for number in v[1:])):
            earned = defaultdict(float)
            start = self.game.start(self.game.deal(1, np.random.default_rng(0)))
            self.earn(start, mixed, seat, view, None, 1.0, earned)
            best = max(self.views[seat][view], key=lambda action: earned[action])
            mine[view] = {action: float(action == best) for action in mine[view]}
        return mixed

    def earn(self, state, strategies, seat, view, chosen, weight, earned) -> None:
        """Add the weighted points of all histories through a view to its actions."""
        observations = self.game.observe(state)
        if not len(observations) or not weight:
            return
        mover, here = int(observations.seat[0]), tuple(observations.observation[0])
        for action, chance in strategies[mover][here].items():
            after = copy.deepcopy(state)
            gain = self.game.step(after, observations, np.array([action]))[0, seat]
            mark = action if mover == seat and here == view else chosen
            if mark is not None:
                earned[mark] += weight * chance * gain
            self.earn(after, strategies, seat, view, mark, weight * chance, earned)


@pytest.mark.parametrize(("wins", "abrupt"), SMALL)
def test_values_and_best_responses_are_those_of_a_walk_over_all_histories(
    wins: str, abrupt: bool, rng
) -> None:
    game = PhantomBoard("small", {**WINS, "uneven": uneven_wins}[wins](2), abrupt)
    walk, slow = walk_over(game), Histories(game)
    assert walk.ends == slow.ends
    assert [len(views.parent) for views in walk.views] == [len(each) for each in slow.views]
    tables, strategies = [], []
    for seat, views in enumerate(walk.views):
        rows = rng.dirichlet(np.ones(game.actions), len(views.parent))
        table, strategy = [], {}
        observations = walk.observations(seat, 0, len(views.parent))
        for row, view, legal in zip(
            rows, observations.observation, observations.legal, strict=True
        ):
            chances = row[legal] / row[legal].sum()
            table.extend(chances)
            actions = np.flatnonzero(legal).tolist()
            strategy[tuple(view)] = dict(zip(actions, chances, strict=True))
        tables.append(np.array(table))
        strategies.append(strategy)
    found = exact_evaluation.evaluate(walk, tuple(tables))
    for seat in range(2):
        value, best = (slow.value(strategies, seat, how) for how in (False, True))
        assert found.values[seat] == pytest.approx(value, abs=1e-12)
        assert found.best_response_values[seat] == pytest.approx(best, abs=1e-12)
    assert found.nash_conv == pytest.approx(found.best_response_values.sum(), abs=1e-12)
    for seat, values in enumerate(exact_evaluation.action_values(walk, tuple(tables))):
        views = walk.views[seat]
        mixed = list(strategies)
        names = walk.observations(seat, 0, len(views.parent)).observation
        reached = names[:, 1:]
        for view in rng.choice(len(names), min(8, len(names)), replace=False):
            mine = {**strategies[seat]}
            for before in range(len(names)):  # the seat's own earlier actions lead here
                mask = (reached[before] != 0) & (reached[before] == reached[view])
                if before != view and mask.sum() == (reached[before] != 0).sum():
                    mine[tuple(names[before])] = dict.fromkeys(mine[tuple(names[before])], 1.0)
            here = tuple(names[view])
            mine[here] = dict.fromkeys(mine[here], 1.0)
            mixed[seat] = mine
            earned: dict[int, float] = defaultdict(float)
            start = game.start(game.deal(1, rng))
            slow.earn(start, mixed, seat, here, None, 1.0, earned)
            places = slice(views.start[view], views.start[view + 1])
            wanted = [earned[action] for action in sorted(strategies[seat][here])]
            assert values[places] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_mixture_is_evaluated_as_the_strategy_that_plays_like_it(abrupt, rng, monkeypatch):
    game = PhantomBoard("small", hex_wins(2), abrupt)
    walk = walk_over(game)
    monkeypatch.setattr(exact_by_walks, "make_walk", lambda game: walk)
    mixtures, strategies = [], []
    for seat, views in enumerate(walk.views):
        networks = stack([initial_policy_weights(game, [4], each, 3.0) for each in rng.spawn(3)])
        shares = np.array([0.5, 0.0, 0.5]) if seat else np.array([0.2, 0.3, 0.5])
        mixtures.append(NetworkMixture(game.features, networks, shares))
        plans = []
        for k in range(3):
            policy = NetworkPolicy(game.features, {n: v[k] for n, v in networks.items()})
            probs = exact_evaluation.tabulate(walk, [policy] * 2)[seat]
            plan = np.ones(1 + len(probs))
            for view in range(len(views.parent)):
                places = slice(views.start[view], views.start[view + 1])
                plan[1:][places] = plan[views.parent[view]] * probs[places]
            plans.append(plan)
        mean = shares @ plans
        before = np.repeat(views.parent, np.diff(views.start))
        strategies.append(mean[1:] / mean[before])
    found = exact_by_walks.evaluate_mixtures(game, mixtures)
    expected = exact_evaluation.evaluate(walk, tuple(strategies))
    assert found.values == pytest.approx(expected.values, abs=1e-12)
    assert found.best_response_values == pytest.approx(expected.best_response_values, abs=1e-12)


def test_observations_from_outside_are_exactly_those_that_a_game_can_show() -> None:
    game = PhantomBoard("small", tic_tac_toe_wins(2), False)
    slow = Histories(game)
    known = {view for views in slow.views for view in views}
    accepted = set()
    for rest in np.ndindex(*(9,) * 4):
        for seat in range(2):
            row = (seat, *(number - 4 for number in rest))
            try:
                game.validated_observations(np.array([row]))
                accepted.add(row)
            except UserError:
                pass
    assert accepted == known


def test_numbers_of_information_sets_are_stored_and_damage_is_mended(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path))
    game = PhantomBoard("small", hex_wins(2), True)
    first = numbering_cache.stored_numbering(game)
    (file,) = (tmp_path / "views").iterdir()
    content = file.read_bytes()
    monkeypatch.setattr(numbering_cache, "number_views", lambda *_: pytest.fail("it is stored"))
    again = numbering_cache.stored_numbering(game)
    assert again.ends == first.ends
    for one, two in zip(first.seats, again.seats, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    monkeypatch.undo()
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path))
    for damage in (content[:-1], b"", content.replace(b"known_0", b"knwon_0")):
        file.write_bytes(damage)
        assert numbering_cache.stored_numbering(game).ends == first.ends
        assert file.read_bytes() == content


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch, caplog) -> None:
    (tmp_path / "views").write_text("a file where the folder should be")
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path))
    game = PhantomBoard("small", hex_wins(2), False)
    assert numbering_cache.stored_numbering(game).ends == number_views(game).ends
    assert "cannot store the indices of information sets" in caplog.text


def test_the_number_of_threads_does_not_change_a_bit(rng) -> None:
    walk = walk_of("dark_hex_3")
    strategies = [random_strategy(views, rng) for views in walk.views]
    one, two = (exact_evaluation.evaluate(walk, tuple(strategies), n) for n in (1, 2))
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(one.best_response_values, two.best_response_values)
    assert one.nash_conv > 0


def test_larger_boards_are_refused() -> None:
    game = PhantomBoard("wide", np.zeros((2, 2**16), bool), False)
    with pytest.raises(UserError, match="wide has 16 cells: exact evaluation needs 9 or less"):
        number_views(game)
