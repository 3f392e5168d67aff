"""Goofspiel with hidden bids against OpenSpiel, and its exact evaluation by walks against trees."""

from __future__ import annotations

import itertools
import re
import zlib

import numpy as np
import pyspiel
import pytest
from tests.walks import random_strategy

from overtrick import make
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import evaluate as evaluation
from overtrick.games.goofspiel import Goofspiel
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers import cfr, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree, build
from overtrick.solvers.walks import exact_evaluation
from overtrick.solvers.walks.cfr_by_walks import WalkCfrSolver, by_seat
from overtrick.solvers.walks.hidden_bid_walk import HiddenBidWalk
from overtrick.solvers.walks.view_policy import ViewPolicy

ORDERS = ["random", "descending", "ascending"]
SMALL = [(3, "random"), (4, "random"), (4, "descending"), (5, "ascending")]


def openspiel_name(cards: int, points_order: str) -> str:
    return f"goofspiel(num_cards={cards},imp_info=true,points_order={points_order})"


def openspiel_tree(cards: int, points_order: str) -> tuple[Tree, tuple[str, ...]]:
    game = make(f"openspiel/{openspiel_name(cards, points_order)}")
    tree = build(game)
    return tree, game.information_state_strings


@pytest.mark.parametrize(("cards", "points_order"), itertools.product((2, 4, 6, 13), ORDERS))
def test_random_games_are_openspiels(cards: int, points_order: str, rng) -> None:
    game, theirs = (
        make("goofspiel", cards=cards, points_order=points_order),
        pyspiel.load_game(openspiel_name(cards, points_order)),
    )
    for _ in range(20):
        deal = game.deal(1, rng)
        state, twin, points = game.start(deal), theirs.new_initial_state(), np.zeros(2)
        prizes = iter(deal[0])
        while not twin.is_terminal():
            if twin.is_chance_node():
                twin.apply_action(int(next(prizes)) - 1)
                continue
            observations = game.observe(state)
            assert observations.seat.tolist() == [0, 1]
            for seat in range(2):
                assert np.flatnonzero(observations.legal[seat]).tolist() == twin.legal_actions(seat)
            actions = [int(rng.choice(twin.legal_actions(seat))) for seat in range(2)]
            twin.apply_actions(actions)
            points += game.step(state, observations, np.array(actions))[0]
        assert not len(game.observe(state))
        assert points.tolist() == twin.returns()


def view_of_string(string: str) -> tuple:
    """Return seat, prizes, own bids and own results of OpenSpiel's information state string."""
    seat = int(re.search(r"P(\d) hand", string)[1])

    def numbers(title: str) -> list[int]:
        return [int(each) for each in re.search(f"{title} sequence: (.*)", string)[1].split()]

    bids = [bid + 1 for bid in numbers(f"P{seat} action")]
    results = [0 if winner < 0 else 1 if winner == seat else -1 for winner in numbers("Win")]
    return seat, tuple(numbers("Point card")), tuple(bids), tuple(results)


class HashedPolicy(MemorylessPolicy):
    """Policy with random probabilities that depend only on what the seat has seen."""

    def __init__(self, cards: int) -> None:
        self.cards = cards

    def row(self, view: tuple, legal: np.ndarray) -> np.ndarray:
        drawn = np.random.default_rng(zlib.crc32(repr(view).encode())).random(self.cards) * legal
        return drawn / drawn.sum()

    def probs(self, observations) -> np.ndarray:
        n, found = self.cards, []
        for row, legal in zip(observations.observation.tolist(), observations.legal, strict=True):
            bids = tuple(bid for bid in row[n : 2 * n - 2] if bid)
            prizes = tuple(row[1 : len(bids) + 2])
            results = tuple(row[2 * n - 2 : 2 * n - 2 + len(bids)])
            found.append(self.row((row[0], prizes, bids, results), legal))
        return np.array(found)


@pytest.mark.parametrize(("cards", "points_order"), SMALL)
def test_a_random_strategy_is_evaluated_as_on_openspiels_tree(cards: int, points_order: str):
    walk = HiddenBidWalk(Goofspiel(cards, points_order))
    tree, strings = openspiel_tree(cards, points_order)
    policy = HashedPolicy(cards)
    ours = exact_evaluation.evaluate(walk, exact_evaluation.tabulate(walk, [policy] * 2))
    sigma = np.array(
        [
            policy.row(view_of_string(string), legal)
            for string, legal in zip(strings, tree.legal, strict=True)
        ]
    )
    assert sum(len(views.parent) for views in walk.views) == len(strings)
    assert ours.values == pytest.approx(best_response.expected(tree, sigma), abs=1e-12)
    for seat, best in enumerate(ours.best_response_values):
        theirs, _ = best_response.best_response(tree, sigma, seat)
        assert best == pytest.approx(theirs, abs=1e-12)
    assert ours.nash_conv > 0.1


@pytest.mark.parametrize("variant", ["cfr+", "dcfr", "cfr-simultaneous"])
def test_cfr_by_walks_equals_cfr_on_openspiels_tree(variant: str) -> None:
    tree, _ = openspiel_tree(4, "descending")
    by_tree = cfr.CfrSolver(tree, cfr.VARIANTS[variant])
    by_walks = WalkCfrSolver(HiddenBidWalk(Goofspiel(4, "descending")), cfr.VARIANTS[variant])
    for _ in range(5):
        by_tree.run(3)
        by_walks.run(3)
        found = exact_evaluation.evaluate(by_walks.walk, by_seat(by_walks.walk, by_walks.average()))
        gap = best_response.nash_conv(tree, by_tree.average())
        assert found.nash_conv == pytest.approx(gap, abs=1e-9)


def test_cfr_converges_to_the_equilibrium_of_a_linear_program() -> None:
    tree, _ = openspiel_tree(4, "random")
    value, _ = sequence_form.equilibrium(tree)
    assert value == pytest.approx(0, abs=1e-9)  # the seats are alike
    solver = WalkCfrSolver(HiddenBidWalk(Goofspiel(4)), cfr.VARIANTS["cfr+"])
    solver.run(300)
    found = exact_evaluation.evaluate(solver.walk, by_seat(solver.walk, solver.average()))
    assert found.nash_conv < 0.01
    assert found.values[0] == pytest.approx(value, abs=found.nash_conv)


@pytest.mark.parametrize(
    ("cards", "points_order", "ends", "sets"),
    [
        (5, "random", 1_728_000, 118_225),
        (6, "random", 373_248_000, 11_525_286),
        (7, "descending", 25_401_600, 333_948),
    ],
)
def test_the_numbers_of_histories_and_information_sets(cards, points_order, ends, sets) -> None:
    walk = HiddenBidWalk(Goofspiel(cards, points_order))
    assert walk.ends == ends
    assert [len(views.parent) for views in walk.views] == [sets, sets]


def test_uniform_play_of_seven_cards_is_even() -> None:
    walk = HiddenBidWalk(Goofspiel(7, "ascending"))
    first, second = map(exact_evaluation.uniform, walk.views)
    found = exact_evaluation.evaluate(walk, (first, second))
    assert found.values == pytest.approx([0, 0], abs=1e-12)
    assert found.best_response_values[0] == pytest.approx(found.best_response_values[1])
    assert 0.5 < found.best_response_values[0] < 1


def test_a_policy_finds_the_probabilities_of_every_view(rng) -> None:
    walk = HiddenBidWalk(Goofspiel(5, "descending"))
    parts = [random_strategy(views, rng) for views in walk.views]
    tables = exact_evaluation.tabulate(walk, [ViewPolicy(walk, np.concatenate(parts))] * 2)
    assert all(map(np.array_equal, tables, parts))
    asked = exact_evaluation.tabulate(walk, [UniformPolicy()] * 2)
    assert np.array_equal(asked[0], exact_evaluation.uniform(walk.views[0]))


@pytest.mark.parametrize("points_order", ORDERS)
def test_observations_from_outside_are_exactly_those_that_a_game_can_show(points_order) -> None:
    game = Goofspiel(4, points_order)
    walk = HiddenBidWalk(game)
    known = {
        tuple(row)
        for seat, views in enumerate(walk.views)
        for row in walk.observations(seat, 0, len(views.parent)).observation.tolist()
    }
    accepted = set()
    cards, results = range(5), (-1, 0, 1)
    for row in itertools.product((0,), *[cards] * 5, results, results):
        try:
            game.validated_observations(np.array([row]))
        except UserError:
            continue
        accepted |= {row, (1, *row[1:])}
    assert accepted == known


def evaluated(cards: int, pool: LocalPool | None = None) -> list[dict]:
    section = evaluation.FixedPolicyEvaluation(opponents=("random",), eval_deals=200)
    choice = GameChoice(name="goofspiel", options={"cards": cards})
    policy, rng = UniformPolicy(), np.random.default_rng(1)
    adapt = evaluation.without_adaptation
    rows = evaluation.evaluate(choice, adapt, policy, section, LocalPool(), rng)
    return evaluation.with_best_responses(choice, rows, pool)


@pytest.mark.parametrize("pool", [None, LocalPool()])
def test_evaluation_rows_have_the_exact_payoff_of_a_best_response(pool) -> None:
    (row,) = evaluated(4, pool)
    tree, _ = openspiel_tree(4, "random")
    assert row["best_response"] == pytest.approx(
        best_response.exploitability(tree, tree.uniform()), abs=1e-12
    )
    assert row["share"] == row["steps"][-1] / row["best_response"]
    assert abs(row["share"]) < 0.5  # uniform against uniform


def test_games_that_are_too_large_are_evaluated_without_best_responses() -> None:
    (row,) = evaluated(8)
    assert row["best_response"] is None
    assert row["share"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cards": 1}, "cards must be 2 to 13, not 1"),
        ({"cards": 14}, "cards must be 2 to 13, not 14"),
        ({"points_order": "descend"}, "unknown points_order 'descend': did you mean 'descending'"),
    ],
)
def test_wrong_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Goofspiel(**options)


@pytest.mark.parametrize(
    ("cards", "points_order", "message"),
    [
        (8, "descending", "goofspiel with 8 cards: exact evaluation allows at most 7"),
        (7, "random", "goofspiel with 7 cards has 128,024,064,000 terminal histories, more than"),
        (9, "random", "goofspiel with 9 cards: exact evaluation allows at most 7"),
    ],
)
def test_games_that_are_too_large_for_walks_are_refused(cards, points_order, message) -> None:
    with pytest.raises(UserError, match=message):
        HiddenBidWalk(Goofspiel(cards, points_order))
