"""Features and choices of bidding networks agree with the systems and the auction."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.rounding import assert_float32_close

from overtrick.core import select_rows
from overtrick.datasets.bidding_examples import in_test_split
from overtrick.evaluation import bidders
from overtrick.games.bridge import auction_rules, double_dummy
from overtrick.games.bridge.auction import (
    features,
    features_from_observation,
    network_bidder,
    network_inputs,
    packed_features,
)
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_WIDTH, Auction
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.loader import load
from overtrick.learners.initialisation import initial_weights
from overtrick.policies.rollout import play

GAMES = 400


@pytest.fixture(scope="module")
def table():
    """Return deals, the auctions that natural and precision bid on them, and the same auctions as a
    game."""
    rng = np.random.default_rng(5)
    natural, precision = load("natural"), load("precision")
    game = Auction("nothing", seats=2)
    deals = game.deal(GAMES, rng)
    dealer, vulnerable = deals[:, CARDS].astype(int), deals[:, CARDS + 1].astype(int)
    calls = auction_simulation.bid_auctions(
        hand_bits(deals[:, :CARDS]), dealer, vulnerable, natural, precision
    )
    rules = network_bidder.SystemBidder(natural, precision)
    batch = play(game, (rules, rules), deals, rng).batch
    return deals, dealer, vulnerable, calls, natural, precision, batch


def test_rules_as_a_policy_bid_as_the_kernel_of_whole_auctions(table):
    _, _, _, calls, _, _, batch = table
    placed = np.full_like(calls, -1)
    placed[batch.game, features_from_observation.calls_made(batch.observation)] = batch.action
    assert np.array_equal(placed, calls)


def test_features_of_observations_equal_those_of_whole_auctions(table):
    deals, dealer, vulnerable, calls, ns, ew, batch = table
    place = features_from_observation.calls_made(batch.observation)
    row = np.cumsum(calls >= 0).reshape(calls.shape)[batch.game, place] - 1
    auctions = hand_bits(deals[:, :CARDS]), dealer, vulnerable, calls, ns, ew
    before, after = (
        features.auction_features(*auctions),
        features.auction_features(*auctions, after=True),
    )
    assert np.array_equal(
        features_from_observation.features_before_call(batch.observation, ns, ew), before[row]
    )
    every = np.arange(len(batch.observation))
    assert np.array_equal(
        features_from_observation.features_after_call(
            batch.observation, every, batch.action, ns, ew
        ),
        after[row],
    )


def test_a_batch_has_the_features_and_calls_of_single_rows(table):
    """Auctions that begin alike share their replay."""
    *_, ns, ew, batch = table
    some = np.random.default_rng(0).permutation(len(batch.observation))[:300]
    rows = batch.observation[some]
    together = features_from_observation.features_before_call(rows, ns, ew)
    calls = features_from_observation.system_calls(rows, ns, ew)
    for k in range(len(rows)):
        alone = features_from_observation.features_before_call(rows[[k]], ns, ew)
        assert np.array_equal(together[[k]], alone)
        assert calls[k] == features_from_observation.system_calls(rows[[k]], ns, ew)[0]


def test_a_state_at_a_decision_has_its_observation(table):
    deals, *_, batch = table
    game, some = Auction("nothing", seats=2), np.arange(0, len(batch.observation), 7)
    rows = select_rows(batch.observations(), some)
    again = game.observe(game.state_at(rows, deals[rows.game]))
    assert np.array_equal(again.observation, rows.observation)
    assert np.array_equal(again.legal, rows.legal)


def test_packing_loses_nothing(table):
    deals, dealer, vulnerable, calls, ns, ew, _ = table
    rows = features.auction_features(hand_bits(deals[:, :CARDS]), dealer, vulnerable, calls, ns, ew)
    bits = packed_features.pack(rows)
    assert bits.shape == (len(rows), 161)
    assert np.array_equal(packed_features.unpack(bits), rows)
    with fake_gpu():
        assert np.array_equal(packed_features.unpack_by_torch(bits).numpy(force=True), rows)
    assert sum(packed_features.RANGE_WIDTHS) == features.PLAYER_WIDTH
    wide = np.full((len(rows), features.WIDTH + 3), 7, np.float32)
    packed_features.unpack(bits, wide)
    assert np.array_equal(wide[:, : features.WIDTH], rows)
    assert (wide[:, features.WIDTH :] == 7).all()
    with pytest.raises(ValueError, match="do not fit"):
        packed_features.unpack(bits[:, :100])


def test_legal_calls_follow_from_the_callers_of_bids(table):
    _, _, _, calls, _, _, batch = table
    place = features_from_observation.calls_made(batch.observation)
    row = np.cumsum(calls >= 0).reshape(calls.shape)[batch.game, place] - 1
    callers = auction_rules.recorded_callers(calls)[row]
    assert np.array_equal(network_inputs.callers_in_observations(batch.observation), callers)
    last = network_inputs.last_bids(callers)
    assert np.array_equal(auction_rules.legal_after_last_bids(last), batch.legal)
    later = network_inputs.callers_after(callers, batch.action)
    step = np.where(later >= 0, (later - 1) % 4, -1)
    order = np.lexsort((place, batch.game))
    following = order[1:][place[order][1:] > 0]
    before = order[:-1][place[order][1:] > 0]
    assert np.array_equal(step[before], callers[following])


def test_network_inputs_are_features_and_calls_of_the_auction(table, monkeypatch):
    deals, dealer, vulnerable, calls, ns, ew, _ = table
    rows = features.auction_features(hand_bits(deals[:, :CARDS]), dealer, vulnerable, calls, ns, ew)
    bits, callers = packed_features.pack(rows), auction_rules.recorded_callers(calls)
    inputs = {
        kind: network_inputs.network_inputs(rows, callers, kind) for kind in network_inputs.WIDTHS
    }
    monkeypatch.setattr(network_inputs, "gpu_in_use", lambda: True)
    for kind, found in inputs.items():
        assert found.shape[1] == network_inputs.WIDTHS[kind]
        assert network_inputs.inputs_of_width(found.shape[1]) == kind
        assert np.array_equal(network_inputs.unpack_inputs(bits, callers, kind), found)
        with fake_gpu():
            on_gpu = network_inputs.learner_inputs(bits, callers, kind)
        assert np.array_equal(on_gpu.numpy(force=True), found)
        assert network_inputs.network_inputs(rows[:0], callers[:0], kind).shape == found[:0].shape
        assert network_inputs.unpack_inputs(bits[:0], callers[:0], kind).shape == found[:0].shape
    last, own = network_inputs.last_bids(callers), features.FIRST_PLAYER
    assert (inputs["last_bid"][:, features.WIDTH :].sum(axis=1) == 3).all()
    shown = inputs["last_bid"][:, features.WIDTH : features.WIDTH + 36].argmax(axis=1)
    assert np.array_equal(shown, last[:, 0] % 36)
    assert np.array_equal(inputs["both"][:, : features.WIDTH], rows)
    assert np.array_equal(inputs["auction"][:, :own], rows[:, :own])
    columns = inputs["auction"][:, own:].reshape(len(rows), 105, 4)
    assert np.array_equal(np.where(columns.any(axis=2), columns.argmax(axis=2), -1), callers)
    assert np.array_equal(inputs["both"][:, features.WIDTH :], inputs["auction"][:, own:])


def test_groups_of_features_cover_every_feature_of_a_player_once():
    borders = np.cumsum([0, *packed_features.RANGE_WIDTHS]).tolist()
    assert set(features.GROUPS.values()) <= set(borders)
    every = np.sort(features.group_columns(list(features.GROUPS)))
    assert np.array_equal(every, np.arange(features.FIRST_PLAYER, features.WIDTH))


def test_a_deal_and_its_rotations_are_in_the_same_split(rng):
    deals = Auction().deal(4000, rng)
    held = in_test_split(hand_bits(deals[:, :CARDS]))
    for observations in range(1, 4):
        assert np.array_equal(in_test_split(hand_bits((deals[:, :CARDS] + observations) % 4)), held)
    assert abs(held.mean() - 0.2) < 0.03


def test_rotated_deals_have_rotated_tricks(rng):
    deals = np.zeros((3, DEAL_WIDTH), np.int8)
    deals[:, :CARDS] = Auction().deal(3, rng)[:, :CARDS]
    deals[:, DD_TABLE:] = double_dummy.trick_tables(deals[:, :CARDS]).reshape(3, 20)
    turned = bidders.rotate_deals(np.repeat(deals, 2, axis=0), rng)
    assert (turned[:, :CARDS] != np.repeat(deals, 2, axis=0)[:, :CARDS]).any()
    again = double_dummy.trick_tables(turned[:, :CARDS]).reshape(6, 20)
    assert np.array_equal(turned[:, DD_TABLE:], again)


def pair(rng) -> tuple[network_bidder.BiddingNetwork, network_bidder.BiddingNetwork]:
    """Return random networks of both kinds."""
    made = [
        network_bidder.BiddingNetwork(
            initial_weights((features.WIDTH, 16, outputs), rng), "leaky_relu"
        )
        for outputs in network_bidder.OUTPUT_WIDTHS.values()
    ]
    return made[0], made[1]


@pytest.mark.parametrize("kind", network_inputs.WIDTHS)
def test_a_bidder_that_is_sure_of_its_calls_bids_with_any_inputs(table, rng, kind):
    """No call is compared with another, so that the value network sees no row."""
    *_, ns, ew, batch = table
    rows = select_rows(batch.observations(), np.arange(100))
    calls, imps = (
        network_bidder.BiddingNetwork(
            initial_weights((network_inputs.WIDTHS[kind], 8, outputs), rng, 1e6), "leaky_relu"
        )
        for outputs in network_bidder.OUTPUT_WIDTHS.values()
    )
    bidder = network_bidder.NetworkBidder(ns, ew, calls, imps)
    likely = bidder.call_probabilities(rows)
    assert (network_bidder.candidate_calls(likely).sum(axis=1) == 1).all()
    assert np.array_equal(bidder.probs(rows).argmax(axis=1), likely.argmax(axis=1))


def test_few_rows_have_the_same_probabilities_as_many(rng):
    """Up to FEW_ROWS rows are computed by numpy, more by torch."""
    rows = 2 * network_bidder.FEW_ROWS
    inputs = rng.integers(2, size=(rows, features.WIDTH)).astype(np.float32)
    possible = rng.random((rows, 38)) < 0.5
    possible[:, 0] = True
    network = pair(rng)[0]
    many, few = (
        network.log_probs(inputs[:some], possible[:some])
        for some in (rows, network_bidder.FEW_ROWS)
    )
    many = many[: len(few)]
    assert np.array_equal(np.isneginf(few), ~possible[: len(few)])
    assert np.array_equal(np.isneginf(many), ~possible[: len(few)])
    legal = possible[: len(few)]
    assert_float32_close(few[legal], many[legal], size=np.abs(inputs @ network.weights["w0"]).max())


def test_a_bidder_takes_the_candidate_of_the_highest_value(table, rng):
    _, _, _, _, ns, ew, batch = table
    calls, imps = pair(rng)
    bidder, observations = (
        network_bidder.NetworkBidder(ns, ew, calls, imps),
        select_rows(batch.observations(), np.arange(300)),
    )
    chosen = bidder.probs(observations)
    assert np.array_equal(chosen.sum(axis=1), np.ones(len(observations)))
    likely = bidder.call_probabilities(observations)
    assert np.allclose(likely.sum(axis=1), 1)
    assert not likely[~observations.legal].any()
    for row, candidates in enumerate(bidder.candidates(observations)):
        assert {c.call for c in candidates} == set(
            np.flatnonzero(likely[row] >= network_bidder.CANDIDATE_THRESHOLD)
        )
        values = [c.imps for c in candidates]
        assert values == sorted(values, reverse=True)
        assert chosen[row].argmax() == candidates[0].call
        assert -24 <= min(values) <= max(values) <= 24


def test_a_bidder_without_values_makes_the_likeliest_call(table, rng):
    _, _, _, _, ns, ew, batch = table
    calls, _ = pair(rng)
    bidder, observations = network_bidder.NetworkBidder(ns, ew, calls), batch.observations()
    assert np.array_equal(
        bidder.probs(observations).argmax(axis=1),
        bidder.call_probabilities(observations).argmax(axis=1),
    )


def test_exploration_gives_every_candidate_its_share(table, rng):
    _, _, _, _, ns, ew, batch = table
    calls, imps = pair(rng)
    observations = select_rows(batch.observations(), np.arange(500))
    probs = network_bidder.NetworkBidder(ns, ew, calls, imps, epsilon=0.3).probs(observations)
    candidates = (probs > 0).sum(axis=1)
    assert (candidates > 1).any()
    least = np.where(probs > 0, probs, 1).min(axis=1)
    assert np.allclose(least[candidates > 1], (0.3 / candidates)[candidates > 1])


def test_equal_bidders_win_nothing_from_each_other(rng):
    calls, imps = pair(rng)
    side = bidders.Side("one", load("natural"), calls, imps)
    game = Auction(seats=2)
    deals = game.deal(40, rng)
    deals[:, DD_TABLE:] = rng.integers(14, size=(40, 20))
    assert not bidders.imps_between(side, side, deals, rng).any()
    other = bidders.Side("rules", load("natural"))
    won = bidders.imps_between(side, other, deals, rng)
    assert np.array_equal(won, -bidders.imps_between(other, side, deals, rng))
    assert won.any()
