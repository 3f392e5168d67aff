"""Laws of the auction: legal calls, observations, and scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import overtrick
from overtrick.core import UserError, select_rows
from overtrick.games import registry
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction_rules import BIDS, CALLS, DOUBLE, PASS, REDOUBLE, parse_calls
from overtrick.games.bridge.cards import hand_bits
from overtrick.games.bridge.par import SIDE_VULNERABLE, par
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy


def random_turns(game, deals, rng):
    """Play random auctions; yield the observations of each turn and the calls made in it."""
    state = game.start(deals)
    while len(observations := game.observe(state)):
        action = sample_actions(UniformPolicy().probs(observations), rng).action
        yield observations, action
        game.step(state, observations, action)


def test_international_match_points_rise_with_the_difference():
    assert (np.diff(scoring.IMP_FLOORS) > 0).all()
    assert (scoring.IMP_FLOORS % 10 == 0).all()
    assert len(scoring.IMP_FLOORS) == 24
    won = scoring.imps(np.arange(-9000, 9001))
    assert won[-1] == scoring.imps(4000) == 24
    assert scoring.imps(3990) == 23
    assert scoring.imps(np.array([0, 10, 20, 40, 50, 430, 490, 500])).tolist() == [
        0, 0, 1, 1, 2, 10, 10, 11,
    ]  # fmt: skip
    assert (won == -won[::-1]).all()
    assert (np.diff(won) >= 0).all()


def test_calls_are_numbered_by_rank():
    assert len(CALLS) == 38
    assert (CALLS[0], CALLS[4], CALLS[5], CALLS[34]) == ("1C", "1N", "2C", "7N")
    assert [CALLS[made] for made in (PASS, DOUBLE, REDOUBLE)] == ["P", "X", "XX"]


def test_calls_are_parsed_in_several_notations():
    assert parse_calls("1N P 2D X XX") == parse_calls("1nt Pass 2d Dbl Rdbl") == [4, 35, 6, 36, 37]
    assert parse_calls("") == []
    assert auction_rules.format_calls(parse_calls("1n PASS 7NT")) == "1N P 7N"
    for word in ("8N", "0C", "1", "N", "1NTT", "XXX", "Pa"):
        with pytest.raises(UserError, match=f"'{word}' is not a call: write P, X, XX or a bid"):
            parse_calls(f"1C {word}")


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("1D P 1D", "call 3 of the auction, 1D, is not above 1D"),
        ("1D P 1C", "call 3 of the auction, 1C, is not above 1D"),
        ("X", "call 1 of the auction, X, comes before any bid"),
        ("P P XX", "call 3 of the auction, XX, comes before any bid"),
        ("1C P X", "call 3 of the auction, X, doubles a bid of its own side"),
        ("1C X P X", "call 4 of the auction, X, doubles a doubled bid"),
        ("1C XX", "call 2 of the auction, XX, redoubles a bid that is not doubled"),
        ("1C X P XX", "call 4 of the auction, XX, redoubles a bid of the other side"),
        ("1C X XX P XX", "call 5 of the auction, XX, redoubles once more"),
        ("P P P P P", "call 5 of the auction, P, comes after its end"),
        ("1C P P P 1D", "call 5 of the auction, 1D, comes after its end"),
        ("1C P P", "the auction '1C P P' does not end: a pass is missing"),
        ("P P P", "the auction 'P P P' does not end: a pass is missing"),
        ("", "the auction '' does not end: 4 passes are missing"),
    ],
)
def test_an_illegal_auction_is_refused_with_its_first_wrong_call(calls, message):
    with pytest.raises(UserError, match=message):
        auction_rules.check_auction(parse_calls(calls))
    if "end:" in message:
        auction_rules.check_auction(parse_calls(calls), done=False)


def test_an_unknown_call_index_is_refused():
    with pytest.raises(UserError, match="call 2 of the auction, 38, is not a call: calls are"):
        auction_rules.check_auction([0, 38])


def test_the_longest_auction_has_319_calls():
    calls = parse_calls(
        "P P P " + " ".join(f"{bid} P P X P P XX P P" for bid in CALLS[:BIDS]) + " P"
    )
    assert len(calls) == 319
    auction_rules.check_auction(calls)


@pytest.mark.parametrize(
    ("calls", "dealer", "contract", "declarer"),
    [
        ("1N P P P", "N", "1N", "N"),
        ("P 1H P 2H P P P", "N", "2H", "E"),
        # South raised, North named the strain first
        ("1D P 1S P 2S P P X P P XX P P P", "S", "2SXX", "N"),
        ("1S 2S P 3S X P P P", "W", "3SX", "N"),  # West named spades too, for the other side
        ("1C X 1D P P P", "E", "1D", "W"),  # a new bid is not doubled
        ("P P P P", "S", "Pass", None),
    ],
)
def test_the_declarer_is_the_first_of_its_side_to_name_the_strain(
    calls, dealer, contract, declarer
):
    auction_rules.check_auction(parse_calls(calls))
    assert contract_results.describe_contract(parse_calls(calls), dealer) == (contract, declarer)


def test_contracts_of_a_batch_equal_those_of_single_auctions(sample_deals, rng):
    game = overtrick.make("auction")
    deals = sample_deals(game, 500, rng)
    calls = np.full((500, 60), -1, np.int8)
    for number, (observations, action) in enumerate(random_turns(game, deals, rng)):
        calls[observations.game, number] = action
    found = auction_rules.final_contracts(calls, deals[:, 52])
    for row, dealer, declarer, level, strain, doubled in zip(
        calls.tolist(), deals[:, 52], *(column.tolist() for column in found), strict=True
    ):
        made = [call for call in row if call >= 0]
        auction_rules.check_auction(made)
        bids = [(place, call) for place, call in enumerate(made) if call < BIDS]
        if not bids:
            assert (declarer, level, strain, doubled) == (-1, 0, -1, 0)
            continue
        place, last = bids[-1]
        assert (level, strain) == (last // 5 + 1, last % 5)
        firsts = [p for p, call in bids if call % 5 == strain and (p - place) % 2 == 0]
        assert declarer == (dealer + firsts[0]) % 4
        assert doubled == max((call - PASS for call in made[place + 1 :]), default=0)


def test_observations_and_features_contain_all_calls_so_far(sample_deals, rng):
    game = overtrick.make("auction")
    deals = sample_deals(game, 300, rng)
    so_far = [[] for _ in deals]
    for observations, action in random_turns(game, deals, rng):
        features = game.features(observations)
        assert features.shape == (len(observations), 482)
        held = hand_bits(deals[observations.game, :52])[
            np.arange(len(observations)), observations.seat
        ]
        for row, (number, seat) in enumerate(
            zip(observations.game, observations.seat, strict=True)
        ):
            calls, numbers, dealer = so_far[number], features[row], deals[number, 52]
            assert obs.calls_from_observation(observations.observation[row]) == calls
            wanted = np.zeros(482)
            wanted[:52] = held[row] >> np.arange(52) & 1
            wanted[52 + (dealer - seat) % 4] = 1
            vulnerable = SIDE_VULNERABLE[deals[number, 53]]
            wanted[56:58] = vulnerable[seat % 2], vulnerable[1 - seat % 2]
            trailing = len(calls) - max(
                (k + 1 for k, c in enumerate(calls) if c != PASS), default=0
            )
            wanted[58 + trailing] = 1
            last = None
            for place, call in enumerate(calls):
                last = call if call < BIDS else last
                if call != PASS:
                    kind = 0 if call < BIDS else call - PASS
                    relative_seat = (dealer + place - seat) % 4
                    wanted[62 + 140 * kind + 4 * last + relative_seat] = 1
            assert np.array_equal(numbers, wanted)
        for number, call in zip(observations.game, action, strict=True):
            so_far[number].append(int(call))


def test_two_sides_bid_like_four_seats_and_the_last_pass_pays_the_score(sample_deals, rng):
    four = overtrick.make("auction")
    sides, points = overtrick.make("auction", seats=2), overtrick.make("auction", scoring="points")
    assert (four.unit, points.unit) == ("imp", "point")
    deals = sample_deals(four, 200, rng)
    games = four, sides, points
    states = [game.start(deals) for game in games]
    total = [np.zeros((200, game.seats)) for game in games]
    while len(observations := four.observe(states[0])):
        action = sample_actions(UniformPolicy().probs(observations), rng).action
        turns = [game.observe(state) for game, state in zip(games, states, strict=True)]
        assert np.array_equal(turns[1].observation, observations.observation)
        assert np.array_equal(turns[1].seat, observations.seat % 2)
        for k, game in enumerate(games):
            gained = game.step(states[k], turns[k], action)
            over = np.setdiff1d(observations.game, game.observe(states[k]).game)
            assert not np.delete(gained, over, axis=0).any()
            total[k] += gained
    assert np.array_equal(total[0], np.tile(total[1], 2))
    best = par(deals[:, -20:].reshape(-1, 4, 5), deals[:, 52], deals[:, 53]).score
    assert np.array_equal(total[0][:, 0], scoring.imps(total[2][:, 0] - best))


def test_the_payoff_is_the_score_of_the_contract_at_its_tricks():
    """Four spades by South, vulnerable, doubled: made with 10 tricks, two down with 8."""
    game = overtrick.make("auction", scoring="points", seats=2)
    deals = np.repeat(game.deal(1, np.random.default_rng(0)), 3, axis=0)
    deals[:, 52:54] = 2, 1  # South deals, North-South are vulnerable
    deals[:, -20:] = 0
    deals[:, 54 + 2 * 5 + 3] = 10, 8, 11
    state, gained = game.start(deals), np.zeros((3, 2))
    for call in parse_calls("4S X P P P"):
        gained += game.step(state, game.observe(state), np.full(3, call))
    assert gained[:, 0].tolist() == [790, -500, 990]
    assert len(game.observe(state)) == 0


def test_a_passed_out_deal_is_scored_without_a_solver():
    game = overtrick.make("auction", scoring="points")
    state = game.start(game.deal(1000, np.random.default_rng(0)))
    for _ in range(4):
        assert not game.step(state, game.observe(state), np.full(1000, PASS)).any()
    assert len(game.observe(state)) == 0


def test_dealers_and_vulnerabilities_are_equally_likely(rng):
    deals = overtrick.make("auction").deal(8_000, rng)
    assert (deals[:, 54:] == -1).all()
    assert chisquare(np.bincount(deals[:, 52] * 4 + deals[:, 53], minlength=16)).pvalue > 1e-3


def test_redealt_hidden_hands_keep_the_observation(rng):
    game = overtrick.make("auction")
    deals = game.deal(400, rng)
    state = game.start(deals)
    for call in parse_calls("1C P 1D"):
        game.step(state, game.observe(state), np.full(400, call))
    observations = game.observe(state)
    again = game.redeal(observations, rng)
    other = game.start(again)
    for call in parse_calls("1C P 1D"):
        game.step(other, game.observe(other), np.full(400, call))
    assert np.array_equal(game.observe(other).observation, observations.observation)
    assert (again[:, :52] != deals[:, :52]).any(axis=1).all()
    assert ((again[:, :52, None] == np.arange(4)).sum(axis=1) == 13).all()
    many = game.redeal(select_rows(observations, np.zeros(6_000, np.int64)), rng)[:, :52]
    seat = int(observations.seat[0])
    others = [each for each in range(4) if each != seat]
    for card in np.flatnonzero(many[0] != seat)[[0, 20, 38]]:
        assert chisquare(np.bincount(many[:, card], minlength=4)[others]).pvalue > 1e-3


def test_an_observation_has_a_description():
    game = overtrick.make("auction")
    deals = game.deal(1, np.random.default_rng(5))
    deals[:, 52:54] = 3, 2
    state = game.start(deals)
    for call in parse_calls("P 1H X"):
        game.step(state, game.observe(state), np.array([call]))
    observations = game.observe(state)
    (hand,) = game.hand(observations)
    assert (
        game.describe(observations.observation[0])
        == f"S holds {hand}, vulnerable EW, after P 1H X from W on"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "rubber"}, "scoring must be imps, points or nothing, not 'rubber'"),
        ({"seats": 3}, "seats must be 2 or 4, not 3"),
    ],
)
def test_a_wrong_option_of_the_auction_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        overtrick.make("auction", **options)


def test_matches_have_two_seats():
    game = overtrick.make("auction", **registry.match_options("auction", {"scoring": "points"}))
    assert (game.seats, game.scoring) == (2, "points")


def test_unsolved_games_are_solved_at_their_end(rng):
    game = overtrick.make("auction", seats=2)
    deals = game.deal(2, rng)
    solved = game.with_double_dummy(deals)
    assert (solved[:, -20:] >= 0).all()
    one, two = (
        play(game, [UniformPolicy()] * 2, each, np.random.default_rng(1)).payoff
        for each in (deals, solved)
    )
    assert np.array_equal(one, two)
