"""Phantom tic-tac-toe and dark hex against OpenSpiel, and their exact evaluation against published
numbers of histories and a walk over all histories of small boards."""

from __future__ import annotations

import copy
from collections import defaultdict
from functools import cache

import numpy as np
import pyspiel
import pytest

from overtrick import make
from overtrick.core import UserError
from overtrick.games.phantom import PhantomBoard, hex_wins, tic_tac_toe_wins
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.hidden_board import evaluation
from overtrick.solvers.hidden_board.views import number_views

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
"""Terminal histories, the number that the literature has for phantom tic-tac-toe."""

WINS = {"line": tic_tac_toe_wins, "hex": hex_wins}
SMALL = [(name, abrupt) for name in WINS for abrupt in (False, True)]


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
def numbered(name: str):
    game = make(name)
    return game, number_views(game)


@pytest.mark.parametrize("name", ["phantom_ttt", "dark_hex_3"])
def test_the_number_of_histories_is_published(name: str) -> None:
    _, numbering = numbered(name)
    assert numbering.ends == ENDS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["abrupt_phantom_ttt", "abrupt_dark_hex_3"])
def test_the_number_of_histories_of_the_abrupt_form(name: str) -> None:
    assert number_views(make(name)).ends == ENDS[name]


def test_uniform_play_earns_the_mean_of_random_games(rng) -> None:
    """Within four standard errors of 20,000 games."""
    game, numbering = numbered("phantom_ttt")
    strategies = tuple(evaluation.uniform(views) for views in numbering.seats)
    exact = evaluation.evaluate(game, numbering, strategies)
    assert exact.values.sum() == pytest.approx(0, abs=1e-9)
    state, points = game.start(game.deal(20_000, rng)), np.zeros(20_000)
    while len(observations := game.observe(state)):
        action = np.argmax(rng.random(observations.legal.shape) * observations.legal, axis=1)
        points += game.step(state, observations, action)[:, 0]
    assert points.mean() == pytest.approx(exact.values[0], abs=4 * points.std() / 20_000**0.5)


def test_a_policy_is_asked_in_every_view() -> None:
    game, numbering = numbered("dark_hex_3")
    tables = evaluation.tabulate(game, numbering, [UniformPolicy()] * 2)
    for table, views in zip(tables, numbering.seats, strict=True):
        assert np.array_equal(table, evaluation.uniform(views))


class Histories:
    """Second implementation: all histories of a small board, from the rules of the game."""

    def __init__(self, game: PhantomBoard) -> None:
        self.game = game
        self.ends = 0
        self.views: tuple[dict, dict] = ({}, {})  # legal actions of each view of each seat
        self.walk(game.start(game.deal(1, np.random.default_rng(0))), [(), ()], [])

    def walk(self, state, last, played) -> None:
        observations = self.game.observe(state)
        if not len(observations):
            self.ends += 1
            return
        seat, view = int(observations.seat[0]), tuple(observations.observation[0])
        self.views[seat][view] = np.flatnonzero(observations.legal[0]).tolist()
        for action in self.views[seat][view]:
            after = copy.deepcopy(state)
            self.game.step(after, observations, np.array([action]))
            self.walk(after, last, played)

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
    game = PhantomBoard("small", WINS[wins](2), abrupt)
    numbering, slow = number_views(game), Histories(game)
    assert numbering.ends == slow.ends
    assert [len(views.known) for views in numbering.seats] == [len(each) for each in slow.views]
    tables, strategies = [], []
    for seat, views in enumerate(numbering.seats):
        rows = rng.dirichlet(np.ones(game.actions), len(views.known))
        table, strategy = [], {}
        attempts = evaluation._attempts(views, game.actions)
        observations = game.view_observations(seat, attempts)
        for row, view, legal in zip(
            rows, observations.observation, observations.legal, strict=True
        ):
            chances = row[legal] / row[legal].sum()
            table.extend(chances)
            actions = np.flatnonzero(legal).tolist()
            strategy[tuple(view)] = dict(zip(actions, chances, strict=True))
        tables.append(np.array(table))
        strategies.append(strategy)
    found = evaluation.evaluate(game, numbering, tuple(tables))
    for seat in range(2):
        value, best = (slow.value(strategies, seat, how) for how in (False, True))
        assert found.values[seat] == pytest.approx(value, abs=1e-12)
        assert found.best_responses[seat] == pytest.approx(best, abs=1e-12)
    assert found.nash_conv == pytest.approx(found.best_responses.sum(), abs=1e-12)
    actions = evaluation.action_values(game, numbering, tuple(tables))
    for seat, views in enumerate(numbering.seats):
        first = slice(views.start[0], views.start[1])
        if seat == 0:
            assert tables[0][first] @ actions[0][first] == pytest.approx(found.values[0])


def test_the_number_of_threads_does_not_change_a_bit(rng) -> None:
    game, numbering = numbered("dark_hex_3")
    strategies = []
    for views in numbering.seats:
        draws = rng.random(views.start[-1])
        sums = np.repeat(np.add.reduceat(draws, views.start[:-1]), np.diff(views.start))
        strategies.append(draws / sums)
    one, two = (evaluation.evaluate(game, numbering, tuple(strategies), n) for n in (1, 2))
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(one.best_responses, two.best_responses)
    assert one.nash_conv > 0


def test_larger_boards_are_refused() -> None:
    game = PhantomBoard("wide", np.zeros((2, 2**16), bool), False)
    with pytest.raises(UserError, match="wide has 16 cells: exact evaluation needs 9 or less"):
        number_views(game)
