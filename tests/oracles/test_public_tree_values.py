"""Exact values of abstract limit hold'em beside the same game as a tree of every deal."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from overtrick.core import CHANCE, END, Observations, TreeNodes, UserError
from overtrick.games.poker.betting_tree import build_betting_tree
from overtrick.games.poker.holdem.bucketed_holdem import abstract_holdem, paper_index
from overtrick.games.poker.rules import LIMIT_HOLDEM_TEXTBOOK as TEXTBOOK
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response, tree
from overtrick.solvers.public_tree import cfr_and_descent, values

FOLD, CALL, RAISE = range(3)
SHORT = replace(TEXTBOOK, board=(0, 3), raises=(2, 4), caps=(1, 2), openers=(0, 1))
THREE = replace(TEXTBOOK, board=(0, 3, 1), raises=(2, 2, 4), caps=(1, 1, 1), openers=(0, 1, 1))


def plausible(buckets=6):
    """Return start, moves and win of an abstraction with ordered buckets, as might occur."""
    order = np.arange(buckets)
    apart = order[:, None] - order
    moves = np.stack([np.exp(-((apart / width) ** 2)) for width in (2.0, 1.5, 1.5)])
    moves /= moves.sum(axis=-1, keepdims=True)
    return np.full((buckets, buckets), 1 / buckets**2), moves, 1 / (1 + np.exp(-apart))


def random_tables(buckets, joint, rng, changes=1):
    """Return tables without order or symmetry between the seats."""
    shape = (changes, buckets, buckets) + (buckets, buckets) * joint
    moves = rng.exponential(size=shape)
    moves /= moves.sum(axis=(-2, -1) if joint else -1, keepdims=True)
    start = rng.exponential(size=(buckets, buckets))
    return start / start.sum(), moves, rng.random((buckets, buckets))


def random_strategies(view, rng, many=None):
    shape = view.legal.shape if many is None else (many, *view.legal.shape)
    weight = rng.exponential(size=shape) * view.legal
    return weight / weight.sum(axis=-1, keepdims=True)


def full_tree(game):
    """Return the tree of every deal, and (public node, own buckets so far) of each information
    set."""
    whole = range(len(game.win))
    parent, edge, seat, chance, gain, infoset = ([] for _ in range(6))
    infosets = {}
    waiting = [(-1, 0, 1.0, 0, ())]  # parent, edge, probability, public node, buckets by round
    for above, action, probability, node, dealt in waiting:  # the loop appends to the list
        here = len(parent)
        parent.append(above)
        edge.append(action)
        chance.append(probability)
        won, infoset_here = 0.0, -1
        if len(dealt) <= game.round[node]:
            mover = CHANCE
            for rank, pair in enumerate(itertools.product(whole, whole)):
                if not dealt:
                    p = game.start[pair]
                elif game.joint:
                    p = game.moves[(len(dealt) - 1, *dealt[-1], *pair)]
                else:
                    steps = zip(dealt[-1], pair, strict=True)
                    p = np.prod([game.moves[len(dealt) - 1, a, b] for a, b in steps])
                waiting.append((here, rank, p, node, (*dealt, pair)))
        elif game.seat[node] == END:
            mover = END
            won = game.gain[node] + game.stake[node] * (2 * game.win[dealt[-1]] - 1)
        else:
            mover = game.seat[node]
            key = (node, tuple(pair[mover] for pair in dealt))
            infoset_here = infosets.setdefault(key, len(infosets))
            for a, child in enumerate(game.after[node]):
                if child >= 0:
                    waiting.append((here, a, 1.0, int(child), dealt))
        seat.append(mover)
        gain.append((won, -won))
        infoset.append(infoset_here)
    at = np.array([node for node, _ in infosets])
    number, nothing = np.arange(len(at)), np.zeros((len(at), 0))
    observations = Observations(number, game.seat[at], nothing, game.after[at] >= 0, number)
    columns = [np.array(c, np.int32) for c in (parent, edge, seat, infoset)]
    nodes = TreeNodes(2, *columns, np.array(chance), np.array(gain), observations)
    return tree.tree_from_nodes(nodes, game.name), list(infosets)


def on_full_tree(view, infosets, sigma):
    """Return a strategy of the indexed game as one of the full tree."""
    size = view.buckets
    return np.array([sigma[view.index[node] * size + held[-1]] for node, held in infosets])


def response_on_full_tree(view, infosets, reply, sigma, seat):
    """Return sigma on the full tree with a seat's best response in its place."""
    sigma = sigma.copy()
    for row, (node, held) in enumerate(infosets):
        if view.rules.seat[node] == seat:
            powers = view.buckets ** np.arange(len(held))
            state = int(powers @ held) if view.rules.joint else held[-1]
            sigma[row] = np.eye(sigma.shape[1])[reply[view.first[node] + state]]
    return sigma


@pytest.mark.parametrize(("rules", "buckets"), [(SHORT, 3), (THREE, 2)])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("coarse", [False, True])
def test_values_on_the_public_tree_equal_those_of_the_full_tree(rules, buckets, joint, coarse, rng):
    tables = random_tables(buckets, joint, rng, len(rules.caps) - 1)
    game = abstract_holdem(*tables, rules)
    view = values.index_game(game, paper_index(rules)[0] if coarse else None)
    whole, infosets = full_tree(game)
    for sigma in random_strategies(view, rng, 3):
        theirs = on_full_tree(view, infosets, sigma)
        assert (
            np.abs(values.expected(view, sigma) - best_response.expected(whole, theirs)).max()
            < 1e-9
        )
        assert abs(values.nash_conv(view, sigma) - best_response.nash_conv(whole, theirs)) < 1e-9
        for seat in range(2):
            best, reply = values.best_response(view, sigma, seat)
            assert abs(best - best_response.best_response(whole, theirs, seat)[0]) < 1e-9
            played = response_on_full_tree(view, infosets, reply, theirs, seat)
            assert abs(best - best_response.expected(whole, played)[seat]) < 1e-9
            assert (reply[np.repeat(game.seat, view.states) != seat] == -1).all()


@pytest.mark.parametrize(("rules", "buckets"), [(SHORT, 3), (THREE, 2)])
def test_cfr_plus_equals_cfr_plus_on_the_full_tree(rules, buckets, rng):
    """Information sets of the full tree remember all own buckets, those of the index forget earlier
    ones. The values are equal, and in the first round the strategies, because nothing is forgotten
    there."""
    game = abstract_holdem(*random_tables(buckets, False, rng, len(rules.caps) - 1), rules)
    view = values.index_game(game)
    whole, infosets = full_tree(game)
    ours, theirs = cfr_and_descent.BucketedCfrPlus(view), cfr.CfrSolver(whole, cfr.CFR_PLUS)
    first = np.array([len(held) == 1 for _, held in infosets])
    for iterations in (1, 1, 8, 30):
        ours.run(iterations)
        theirs.run(iterations)
        mine, other = ours.average(), theirs.average()
        assert np.abs(on_full_tree(view, infosets, mine) - other)[first].max() < 1e-9
        assert (
            np.abs(values.expected(view, mine) - best_response.expected(whole, other)).max() < 1e-9
        )
        assert abs(values.nash_conv(view, mine) - best_response.nash_conv(whole, other)) < 1e-9


def test_a_loaded_cfr_plus_continues_with_identical_results(rng):
    view = values.index_game(abstract_holdem(*random_tables(3, False, rng), SHORT))
    straight, first, second = (cfr_and_descent.BucketedCfrPlus(view) for _ in range(3))
    straight.run(7)
    first.run(3)
    second.load(first.state())
    second.run(4)
    assert (second.average() == straight.average()).all()


def test_values_of_many_strategies_equal_those_of_each(rng):
    view = values.index_game(abstract_holdem(*plausible()), paper_index()[0])
    sigma = random_strategies(view, rng, values.STRATEGIES_PER_PASS + 3)
    together = values.nash_conv(view, sigma)
    assert together.shape == (len(sigma),)
    assert np.abs(together[::5] - [values.nash_conv(view, one) for one in sigma[::5]]).max() < 1e-9
    found = values.expected(view, sigma)
    assert np.abs(found.sum(axis=1)).max() < 1e-9
    assert np.abs(found[-1] - values.expected(view, sigma[-1])).max() < 1e-9


def test_joint_tables_of_independent_buckets_give_the_same_values(rng):
    start, moves, win = plausible()
    both = np.einsum("rik,rjl->rijkl", moves, moves)
    games = [abstract_holdem(start, m, win) for m in (moves, both)]
    apart, joint = (values.index_game(game, paper_index()[0]) for game in games)
    sigma = random_strategies(apart, rng)
    assert abs(values.nash_conv(apart, sigma) - values.nash_conv(joint, sigma)) < 1e-9
    assert np.abs(values.expected(apart, sigma) - values.expected(joint, sigma)).max() < 1e-9


@pytest.mark.parametrize("joint", [False, True])
def test_the_nash_conv_of_always_folding_is_one_and_a_half_bets(joint, rng):
    """The button loses its 0.5 at once, the big blind its 1 to any raise."""
    view = values.index_game(abstract_holdem(*random_tables(6, joint, rng, 3)), paper_index()[0])
    folds = np.eye(3)[np.argmax(view.legal, axis=1)]  # checks where folding is not allowed
    assert abs(values.nash_conv(view, folds) - 1.5) < 1e-9
    assert abs(values.best_response(view, folds, 0)[0] - 1.0) < 1e-9
    assert abs(values.best_response(view, folds, 1)[0] - 0.5) < 1e-9


def test_the_betting_is_heads_up_limit_holdem():
    betting, game = build_betting_tree(TEXTBOOK), abstract_holdem(*plausible())
    acts, shown = game.seat >= 0, game.stake > 0
    assert [int((acts & (game.round == r)).sum()) for r in range(4)] == [8, 70, 630, 5670]
    assert (len(acts), int(shown.sum())) == (16_584, 7 * 9 * 9 * 9)
    assert game.stake.max() == 4 * 1 + 4 * 1 + 4 * 2 + 4 * 2  # four bets in each round
    assert game.stake[shown].min() == 1  # both seats check
    assert game.gain.min() == -22  # the last bet, and so the pot, is given up
    assert set(np.abs(game.gain[~acts & ~shown & (game.round == 0)])) == {0.5, 1, 2, 3}
    facing = betting.chips.min(axis=1) < betting.chips.max(axis=1)
    assert (betting.legal[acts, FOLD] == facing[acts]).all()
    assert betting.legal[acts, CALL].all()
    assert [int(game.seat[0]), int(game.seat[game.after[game.after[0, CALL], CALL]])] == [0, 1]


def test_first_buckets_that_depend_on_each_other_need_joint_transitions(rng):
    start, moves, win = random_tables(3, False, rng)
    game = abstract_holdem(start, moves, win, SHORT)
    together = replace(game, start=np.diag(game.start.sum(axis=1)))
    with pytest.raises(UserError, match=r"first buckets of .* depend on each other"):
        values.index_game(together)
    values.index_game(game)


def test_the_papers_index_keeps_the_betting_of_the_round_only():
    index, situations = paper_index()
    game = abstract_holdem(*plausible())
    assert len(situations) == 8 + 3 * 10
    for r, inner in enumerate((8, 10, 10, 10)):
        assert len(set(index[(game.round == r) & (game.seat >= 0)])) == inner
    assert tuple(situations[index[0]]) == (0, 1, 0, 0)
    raised = game.after[game.after[0, RAISE], RAISE]  # the button raised and was raised
    assert tuple(situations[index[raised]]) == (0, 1, 1, 1)
    view = values.index_game(game, index)
    assert view.legal.shape == (228, 3)
    assert (view.seat[:: view.buckets] == 1 - situations[:, 1]).all()


def test_cfr_plus_converges_with_perfect_recall_and_not_on_the_papers_index():
    game = abstract_holdem(*plausible())
    views = values.index_game(game), values.index_game(game, paper_index()[0])
    gaps = []
    for view in views:
        solver = cfr_and_descent.BucketedCfrPlus(view)
        solver.run(120)
        gaps.append(values.nash_conv(view, solver.average()))
    assert 0 < gaps[0] < 0.07
    assert gaps[1] > 0.3


def test_the_gradient_of_nash_conv_equals_finite_differences(rng):
    view = values.index_game(abstract_holdem(*plausible()), paper_index()[0])
    sigma, other = random_strategies(view, rng, 2)
    gap, slope = cfr_and_descent.nash_conv_subgradient(view, sigma)
    assert abs(gap - values.nash_conv(view, sigma)) < 1e-9
    small = 1e-6
    low, high = (values.nash_conv(view, sigma + s * (other - sigma)) for s in (-small, small))
    assert abs((high - low) / (2 * small) - (slope * (other - sigma)).sum()) < 1e-6


def test_a_descent_on_the_papers_index_gets_far_below_cfr_plus():
    view = values.index_game(abstract_holdem(*plausible()), paper_index()[0])
    descent = cfr_and_descent.NashConvDescent(view)
    descent.run(100)
    early = descent.nash_conv
    descent.run(100)
    assert descent.nash_conv < early
    assert abs(values.nash_conv(view, descent.average()) - descent.nash_conv) < 1e-12
    assert descent.nash_conv < 0.2


@pytest.mark.parametrize("kind", [cfr_and_descent.BucketedCfrPlus, cfr_and_descent.NashConvDescent])
def test_a_loaded_solver_continues_with_identical_results(kind):
    view = values.index_game(abstract_holdem(*plausible()), paper_index()[0])
    first, second = kind(view), kind(view)
    first.run(5)
    second.load(first.state())
    first.run(5)
    second.run(5)
    assert second.iteration == 10
    assert (first.average() == second.average()).all()


def broken(table, change):
    """Return plausible() with one table changed."""
    tables = dict(zip(("start", "moves", "win"), plausible(), strict=True))
    tables[table] = change(tables[table])
    return tables


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (broken("start", lambda t: t * 0.9), "start must be probabilities that sum to 1, not to"),
        (broken("moves", lambda t: t * 1.1), "each table of moves must be probabilities"),
        (broken("moves", lambda t: np.where(t > 0.3, np.nan, t)), "each table of moves"),
        (broken("moves", lambda t: t[:2]), r"moves must be \(3, 6, 6\), or joint \(3, 6, 6, 6, 6"),
        (broken("win", lambda t: t * 2), "win must hold probabilities"),
        (broken("win", lambda t: t[0, 0]), "square tables of one size"),
    ],
)
def test_invalid_tables_are_refused(tables, words):
    with pytest.raises(UserError, match=words) as caught:
        abstract_holdem(**tables)
    assert "\n" not in str(caught.value)


def test_strategies_and_indices_of_another_game_are_refused(rng):
    game = abstract_holdem(*random_tables(2, False, rng), SHORT)
    index, _ = paper_index(SHORT)
    view = values.index_game(game, index)
    sigma = view.uniform()
    for wrong, words in (
        (sigma[:-1], "a strategy of another game or abstraction"),
        (sigma[0], "a strategy of another game or abstraction"),
        (sigma * 0.9, "row 0 of a strategy must be probabilities of legal actions"),
    ):
        for verb in (
            values.expected,
            values.nash_conv,
            values.best_responses,
            cfr_and_descent.nash_conv_subgradient,
        ):
            with pytest.raises(UserError, match=words):
                verb(view, wrong)
    with pytest.raises(UserError, match="best_responses takes one strategy"):
        values.best_responses(view, np.stack([sigma, sigma]))
    for wrong, words in (
        (index[:-1], "abstract public states must be"),
        (index * 1.0, "abstract public states must be"),
        (np.zeros_like(index), "must be -1 at terminal nodes"),
        (np.where(index == 1, 99, index), "from 0 without a gap"),
        (np.minimum(index, 0), "abstract public state 0 has public nodes of different seats"),
    ):
        with pytest.raises(UserError, match=words):
            values.index_game(game, wrong)
    acts = np.flatnonzero(game.seat >= 0)
    legal = game.after[acts] >= 0
    other = acts[(legal == legal[0]).all(axis=1) & (game.seat[acts] != game.seat[acts[0]])][0]
    own = values.public_node_index(game)
    own[other] = own[acts[0]]  # the same legal actions, but another seat's
    own[acts] = np.unique(own[acts], return_inverse=True)[1]
    with pytest.raises(UserError, match=r"abstract public state \d+ has public nodes of different"):
        values.index_game(game, own)
    with pytest.raises(UserError, match="a learning rate above 0, not 0"):
        cfr_and_descent.NashConvDescent(view, rate=0)
    joint = values.index_game(abstract_holdem(*random_tables(2, True, rng), SHORT))
    with pytest.raises(UserError, match="need independent buckets"):
        cfr_and_descent.BucketedCfrPlus(joint)
    with pytest.raises(UserError, match="need independent buckets"):
        cfr_and_descent.NashConvDescent(joint)
