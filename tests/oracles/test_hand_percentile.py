"""Percentiles of hold'em holdings: counted exhaustively, beside published odds, and cached in a
file."""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from overtrick import make
from overtrick.games.poker.hand_ranking import strength
from overtrick.games.poker.holdem import equity, hand_percentile
from overtrick.games.poker.holdem.hand_percentile import _RiverCache, percentiles

DECK = 52
PAIRS = np.array([(a, b) for a in range(DECK) for b in range(a)])  # in the order of PAIR
AGAINST_RANDOM = {
    "AA": 0.8520371, "KK": 0.8239568, "QQ": 0.7992516, "JJ": 0.7746947, "TT": 0.7501178,
    "99": 0.7205725, "88": 0.6916304, "AKs": 0.6704463, "77": 0.6623602, "A5o": 0.5769653,
    "A6o": 0.5768245, "Q9s": 0.5766432, "T8s": 0.5233437, "K4o": 0.5232747, "J7s": 0.5232478,
    "85o": 0.4142753, "64s": 0.4133332,
}  # fmt: skip
"""Exact equity of hands against a random one, with ties as half; jazbo.com/poker/huholdem.html."""


def cards(text):
    return ["23456789TJQKA".index(card[0]) * 4 + "cdhs".index(card[1]) for card in text.split()]


def holdings_on(board):
    """Return all holdings (n, 2) that a board allows, and the board (n, 5) with -1 for undealt
    cards."""
    free = PAIRS[~np.isin(PAIRS, board).any(axis=1)]
    return free, np.tile(np.array([*board, *[-1] * (5 - len(board))]), (len(free), 1))


def percentiles_of(worth):
    """Return (n,) the percentile of each of (n,) numbers among them all."""
    lower = (worth[None, :] < worth[:, None]).sum(axis=1)
    equal = (worth[None, :] == worth[:, None]).sum(axis=1)
    return (lower + equal / 2) / len(worth)


def wins(board):
    """Return (n,) 2 for each other hand that a holding beats on a complete board, 1 for each
    tie."""
    free, whole = holdings_on(board)
    worth = strength(np.hstack([free, whole]))
    meets = (free[:, None, :, None] != free[None, :, None, :]).all(axis=(2, 3))
    return (((worth[:, None] > worth) * 2 + (worth[:, None] == worth)) * meets).sum(axis=1)


def wins_over_runouts(board):
    """Return (n,) the wins, summed over all ways to complete a board."""
    free, _ = holdings_on(board)
    total, one = np.zeros(len(PAIRS), np.int64), np.empty(len(PAIRS), np.int64)
    rest = np.setdiff1d(np.arange(DECK), board)
    for more in itertools.combinations(rest.tolist(), 5 - len(board)):
        equity.river_equities(np.array([*board, *more]), one)
        total += np.maximum(one, 0)
    return total[equity.PAIR[free[:, 0], free[:, 1]]]


RIVERS = ["As Ks Qs Js Ts", "2c 2d 2h 2s 3c", "Ah 7d 7c 4s 2h", "9h 8h 7h 2c 3d", "Kc Qd 9h 6s 3c"]


@pytest.mark.parametrize("board", RIVERS)
def test_on_the_river_every_hand_is_compared_with_every_other(board):
    board = cards(board)
    found = np.empty(len(PAIRS), np.int64)
    equity.river_equities(np.array(board), found)
    free, _ = holdings_on(board)
    wanted = wins(board)
    assert np.array_equal(found[equity.PAIR[free[:, 0], free[:, 1]]], wanted)
    assert (found >= 0).sum() == len(free)
    assert wanted.sum() == 990 * len(free)  # what one wins the other loses
    assert np.abs(percentiles(*holdings_on(board)) - percentiles_of(wanted)).max() < 1e-12


EARLIER = ["Ah 7d 7c 4s", "9h 8h 7h 2h", "Kc Qc 9h 6h", "2c 2d 2h 2s", "7s 7h 2c", "Qh Jh Ts"]


@pytest.mark.parametrize("board", EARLIER)
def test_before_the_river_every_way_to_complete_the_board_counts(board):
    board = cards(board)
    assert (
        np.abs(percentiles(*holdings_on(board)) - percentiles_of(wins_over_runouts(board))).max()
        < 1e-12
    )


def test_the_number_of_suit_isomorphic_boards_is_the_known_one():
    for size, expected, total in [(3, 1755, 22_100), (4, 16_432, 270_725), (5, 134_459, 2_598_960)]:
        found = equity.boards(size)
        assert len(found.key) == expected
        assert found.weight.sum() == total


def test_hole_cards_are_ordered_by_their_published_odds():
    free, board = holdings_on([])
    strong = percentiles(free, board)
    ranks, suits = np.sort(free // 4, axis=1)[:, ::-1], free % 4
    names = {}
    for (high, low), same, each in zip(ranks, suits[:, 0] == suits[:, 1], strong, strict=True):
        kind = "" if high == low else "s" if same else "o"
        name = "23456789TJQKA"[high] + "23456789TJQKA"[low] + kind
        assert names.setdefault(name, each) == each
    assert len(names) == 169
    in_order = sorted(AGAINST_RANDOM, key=AGAINST_RANDOM.__getitem__)
    assert sorted(AGAINST_RANDOM, key=names.__getitem__) == in_order
    assert min(names, key=names.__getitem__) == "32o"
    assert abs(names["AA"] - (1 - 3 / 1326)) < 1e-12  # six of 1,326, and itself in the middle
    assert abs(strong.mean() - 0.5) < 1e-12


@pytest.mark.parametrize("up", [0, 3, 4, 5])
def test_neither_names_of_suits_nor_the_order_of_cards_matter(up, rng):
    dealt = np.argsort(rng.random((300, DECK)), axis=1)[:, :7]
    names = np.argsort(rng.random((300, 4)), axis=1)
    renamed = dealt // 4 * 4 + np.take_along_axis(names, dealt % 4, axis=1)
    renamed[:, :2], renamed[:, 2 : 2 + up] = renamed[:, 1::-1], renamed[:, 1 + up : 1 : -1]
    for each in (dealt, renamed):
        each[:, 2 + up :] = -1
    one, two = (percentiles(each[:, :2], each[:, 2:]) for each in (dealt, renamed))
    assert np.array_equal(one, two)


def test_boards_of_all_rounds_may_be_mixed(rng):
    dealt = np.argsort(rng.random((400, DECK)), axis=1)[:, :7].astype(np.int16)
    up = rng.choice([0, 3, 4, 5], size=400)
    dealt[:, 2:][np.arange(5) >= up[:, None]] = -1
    together = percentiles(dealt[:, :2], dealt[:, 2:])
    one_by_one = [percentiles(row[None, :2], row[None, 2:])[0] for row in dealt]
    assert np.array_equal(together, one_by_one)
    assert percentiles(dealt[:0, :2], dealt[:0, 2:]).shape == (0,)


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Use an empty cache in tmp_path/own, and return a list that grows with every computed
    table."""
    built, size = [], len(hand_percentile.percentile_table().rank)
    monkeypatch.setenv("OVERTRICK_CACHE", str(tmp_path / "own"))

    def build():
        built.append(1)
        return np.full((size, len(PAIRS)), 7, np.uint16)

    monkeypatch.setattr(hand_percentile, "_built", build)
    yield built
    hand_percentile.percentile_table.cache_clear()


def test_the_table_is_computed_once_and_cached(counted, tmp_path):
    for _ in range(3):
        hand_percentile.percentile_table.cache_clear()
        assert (hand_percentile.percentile_table().rank == 7).all()
    assert len(counted) == 1
    (cached,) = (tmp_path / "own").iterdir()
    cached.write_bytes(cached.read_bytes()[:-7])  # a truncated file is computed again
    hand_percentile.percentile_table.cache_clear()
    assert (hand_percentile.percentile_table().rank == 7).all()
    assert len(counted) == 2


def test_an_unwritable_cache_folder_is_not_an_error(counted, tmp_path):
    (tmp_path / "own").write_text("no folder")
    hand_percentile.percentile_table.cache_clear()
    assert (hand_percentile.percentile_table().rank == 7).all()
    assert len(counted) == 1


def test_cached_rivers_equal_computed_ones(rng):
    deals = make("holdem").deal(300, rng)
    hole, board = deals[:, :2].astype(np.int64), deals[:, 4:9].astype(np.int64)
    crowded, roomy = (
        _RiverCache(bits=3),
        _RiverCache(bits=16),
    )  # the first cache holds almost nothing
    first = crowded.percentiles(hole, board)
    for order in (np.arange(300), rng.permutation(300), rng.integers(300, size=900)):
        for memory in (crowded, roomy):
            assert np.array_equal(memory.percentiles(hole[order], board[order]), first[order])


def test_threads_that_share_the_cache_of_rivers_get_their_own_percentiles(rng, monkeypatch):
    deals = make("holdem").deal(200, rng)
    hole, board = deals[:, :2].astype(np.int64), deals[:, 4:9].astype(np.int64)
    wanted = _RiverCache(bits=16).percentiles(hole, board)
    shared = _RiverCache(bits=3)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work(seed: int) -> bool:
        own = np.random.default_rng(seed)
        for _ in range(300):
            rows = own.integers(200, size=4)
            if not np.array_equal(shared.percentiles(hole[rows], board[rows]), wanted[rows]):
                return False
        return True

    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)


def test_a_board_with_a_card_twice_is_an_error():
    with pytest.raises(ValueError, match="a board needs five different cards"):
        percentiles(np.array([[20, 30]]), np.array([[0, 0, 0, 0, 0]]))
