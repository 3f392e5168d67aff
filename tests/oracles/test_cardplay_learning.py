"""Data of card-play learning: whole games, state abstractions, and double-dummy play."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from endplay import dds
from endplay.types import Deal, Denom, Player
from tests import exhaustive_search

import overtrick
from overtrick.core import UserError, select_rows
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.cardplay import play_records, suit_canonical
from overtrick.games.bridge.cardplay.kernels import (
    CARD_SET_COLUMNS,
    OBS_COUNT,
    OBS_OWN,
    OBS_PLAYED,
    OBS_SHOWN,
    OBS_STRAIN,
    OBS_VOID,
)
from overtrick.games.bridge.cardplay.playout import play_out
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS, full, similar_cards
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, NOTRUMP, format_deal, hand_bits
from overtrick.games.bridge.trick_rules import replay_tricks
from overtrick.learners.value_based.tabular import QTable, TabularConfig
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.lookahead.pimc import PimcPolicy


@pytest.fixture
def game():
    return overtrick.make("minibridge", strain="trump")


def cards_of(batch):
    """Return (G, 52) the cards of games with all decisions recorded, in the order of play."""
    cards = np.empty((batch.games, CARDS), np.int64)
    cards[batch.game, batch.observation[:, OBS_COUNT]] = batch.action
    return cards


def tricks_of(deals, cards):
    """Return (G,) the tricks of the declaring side, and the first illegal card."""
    strain = deals[:, CARDS].astype(np.int64)
    leader = np.ones(len(deals), np.int64)
    return replay_tricks(hand_bits(deals[:, :CARDS]), strain, leader, cards.astype(np.int64))


@pytest.mark.parametrize("declarer", ["random", "rules"])
@pytest.mark.parametrize("defenders", ["random", "rules"])
def test_games_of_the_kernel_equal_those_of_the_game(game, declarer, defenders, rng):
    deals = game.deal(3000, rng)
    cards, won = play_out(deals, declarer, defenders, rng)
    counted, wrong = tricks_of(deals, cards)
    assert (counted == won).all()
    assert (wrong == -1).all()
    policies = [make_opponent(name, game, None) for name in (declarer, defenders)]
    payoff = play(game, policies, deals, rng, recorded=()).payoff[:, 0]
    error = np.sqrt(0.5 / len(deals))
    made = (won >= deals[:, CARDS + 1]).mean()
    assert made == pytest.approx((payoff > 0).mean(), abs=4 * error)


@pytest.mark.parametrize(("seat", "positions"), [(0, (0, 2)), (1, (1, 3))])
def test_stored_games_give_the_original_decisions(game, seat, positions, rng):
    deals = game.deal(50, rng)
    batch = play(game, (UniformPolicy(), UniformPolicy()), deals, rng).batch
    rows = np.flatnonzero(batch.seat == seat)
    observations = select_rows(batch.observations(), rows)
    again = play_records.decision_trajectories(deals, cards_of(batch), positions, np.arange(50.0))
    assert np.array_equal(again.observation, observations.observation)
    assert np.array_equal(again.legal, observations.legal)
    assert np.array_equal(again.action, batch.action[rows])
    assert np.array_equal(again.last, batch.last[rows])
    assert np.array_equal(again.reward, np.repeat(np.arange(50.0), 26))


def test_a_game_resumed_at_any_row_continues_identically(game, rng):
    deals = game.deal(20, rng)
    played = play(game, (UniformPolicy(), UniformPolicy()), deals, rng)
    batch, cards = played.batch, cards_of(played.batch)
    rows = rng.choice(len(batch), 200)
    observations = select_rows(batch.observations(), rows)
    state = game.resume(observations, deals[observations.game])
    total = np.zeros((len(rows), 2))
    now = game.observe(state)
    assert np.array_equal(now.observation, observations.observation)
    while len(now := game.observe(state)):
        total += game.step(
            state, now, cards[observations.game[now.game], now.observation[:, OBS_COUNT]]
        )
    assert np.array_equal(total, played.payoff[observations.game])


def some_rows(game, rng):
    """Return decisions of the declaring side in games of random players."""
    batch = play(game, (UniformPolicy(), UniformPolicy()), 200, rng, recorded=[0]).batch
    return batch.observations()


def honours(cards, ranks):
    """Return which cards of some ranks are in sets of cards (R,)."""
    wanted = sum(1 << CARD_NAMES.index(suit + rank) for suit in "CDHS" for rank in ranks)
    return cards & wanted


def test_published_state_abstractions_contain_the_listed_features(game, rng):
    observations = some_rows(game, rng)
    trick = observations.observation[:, 7:11]
    on_table = np.where(trick >= 0, np.int64(1) << np.maximum(trick, 0), 0).sum(axis=1)
    gone = (
        np.bitwise_or.reduce(observations.observation[:, OBS_PLAYED : OBS_PLAYED + 4], axis=1)
        & ~on_table
    )
    in_view = observations.observation[:, OBS_OWN] | observations.observation[:, OBS_SHOWN]
    expected_features = {
        "unknown_hands": (*trick.T, honours(gone, "QKA")),
        "known_hands": (
            *trick.T, honours(gone, "QKA"), honours(in_view, "KA"),
        ),
        "full": tuple(observations.observation.T),
    }  # fmt: skip
    for name, features in expected_features.items():
        states = REPRESENTATIONS[name](observations)
        assert states.shape == (len(observations), 1)
        _, by_facts = np.unique(np.column_stack(features), axis=0, return_inverse=True)
        pairs = {(a, b) for a, b in zip(by_facts.tolist(), states[:, 0].tolist(), strict=True)}
        assert len(pairs) == len(np.unique(by_facts)) == len(np.unique(states))


def test_the_network_inputs_of_a_decision_are_those_listed_for_the_game(rng):
    """Sets of cards and rules of play in Python, beside the bit masks of the kernel."""
    game = overtrick.make("minibridge", strain="trump")
    batch = play(game, (UniformPolicy(), UniformPolicy()), 8, rng).batch
    for row, numbers in zip(batch.observation, game.features(batch.observations()), strict=True):
        seen = dict(zip(game.observation_fields, row.tolist(), strict=True))
        position, strain, count = seen["position"], seen["strain"], seen["count"]
        own, shown = members(seen["own"]), members(seen["shown"])
        played = [members(mask) for mask in row[OBS_PLAYED : OBS_PLAYED + 4].tolist()]
        trick = row[OBS_PLAYED - 4 : OBS_PLAYED].tolist()
        order = [(position - k) % 4 for k in range(count % 4, 0, -1)]  # leader first
        unseen = set(range(CARDS)).difference(own, shown, *played)
        masters = {c for c in own | shown if not any(u // 13 == c // 13 and u > c for u in unseen)}

        def power(card, led=trick[order[0]] if order else 0, strain=strain):
            return (card // 13 == strain, card // 13 == led // 13, card)

        best = max(order, key=lambda k: power(trick[k])) if order else None
        winners = {c for c in own if order and power(c) > power(trick[best])}
        goal = seen["needed"] - seen["won"]
        wanted = [float(k == position) for k in range(4)] + [float(k == strain) for k in range(5)]
        wanted += [seen["needed"] / 13, seen["won"] / 13, count / 52, goal / 13]
        wanted += [(goal - (13 - count // 4)) / 13]
        wanted += [seen["void"] >> bit & 1 for bit in range(16)]
        wanted += [float(k == count % 4) for k in range(4)]
        wanted += [float(bool(order) and (best - position) % 2 == 0)]
        for suit in range(4):
            wanted += [sum(c // 13 == suit for c in s) / 13 for s in (own, shown, unseen)]
        on_table = [{card} - {-1} for card in trick]
        for cards in (own, shown, *played, *on_table, unseen, masters, winners):
            wanted += [float(card in cards) for card in range(CARDS)]
        np.testing.assert_allclose(numbers, wanted, atol=1e-6)


def members(mask):
    """Return the cards of a bit mask as a set."""
    return {card for card in range(CARDS) if mask >> card & 1}


def test_prospects_describe_legal_cards_and_do_not_depend_on_the_suit(rng):
    game = overtrick.make("minibridge")
    observations = some_rows(game, rng)
    states = REPRESENTATIONS["prospects"](observations)
    assert np.array_equal(states != 0, observations.legal)
    # without trumps the suits are equivalent: rename clubs to diamonds, and so on
    around = (np.arange(CARDS) + 13) % CARDS
    renamed = observations.observation.copy()
    for column in (OBS_OWN, OBS_SHOWN, *range(OBS_PLAYED, OBS_PLAYED + 4)):
        bits = renamed[:, column, None] >> np.arange(CARDS) & 1
        renamed[:, column] = (bits << around).sum(axis=1)
    trick = renamed[:, 7:11]
    renamed[:, 7:11] = np.where(trick >= 0, around[trick], -1)
    legal = np.empty_like(observations.legal)
    legal[:, around] = observations.legal
    turned = type(observations)(observations.game, observations.seat, renamed, legal, None)
    assert np.array_equal(REPRESENTATIONS["prospects"](turned)[:, around], states)


def test_prospects_count_up_to_six_unseen_cards_of_a_suit(game, rng):
    observations = some_rows(game, rng)
    states, compared = REPRESENTATIONS["prospects"](observations), {False: 0, True: 0}
    fewer = observations.observation.copy()
    lowest = []  # unseen club of each row
    for row in fewer:
        unseen = set(range(13)) - members(np.bitwise_or.reduce(row[list(CARD_SET_COLUMNS)]))
        lowest.append((min(unseen), len(unseen)) if len(unseen) > 1 else (CARDS, 0))
        if unseen:
            row[OBS_PLAYED] |= 1 << min(unseen)
    changed = REPRESENTATIONS["prospects"](replace(observations, observation=fewer))
    for row, (removed, count) in enumerate(lowest):
        for card in np.flatnonzero(observations.legal[row, :13]):
            if card > removed:  # as many higher unseen cards as before
                differ = states[row, card] != changed[row, card]
                assert differ == (count <= 6)
                compared[differ] += 1
    assert min(compared.values()) > 20


def test_renamed_suits_give_the_same_game(game, rng):
    batch = play(game, (UniformPolicy(), UniformPolicy()), 30, rng).batch
    observations = batch.observations()
    other, own = suit_canonical.canonical_observations(observations)
    assert (np.sort(own, axis=1) == np.arange(CARDS)).all()
    assert ((own.reshape(-1, 4, 13) % 13) == np.arange(13)).all()  # ranks stay
    rows = np.arange(len(observations))
    for column in (OBS_OWN, OBS_SHOWN, *range(OBS_PLAYED, OBS_PLAYED + 4)):
        before = observations.observation[:, column, None] >> own & 1
        assert np.array_equal(before, other.observation[:, column, None] >> np.arange(CARDS) & 1)
    assert np.array_equal(observations.legal[rows[:, None], own], other.legal)
    for column in range(7, 11):
        card = other.observation[:, column]
        assert np.array_equal(
            np.where(card < 0, -1, own[rows, card]), observations.observation[:, column]
        )
    follows = other.observation[:, OBS_COUNT] % 4 > 0
    led = other.observation[
        rows, 7 + (other.observation[:, 0] - other.observation[:, OBS_COUNT]) % 4
    ]
    assert (led[follows] < 13).all()
    held = other.observation[~follows][:, [OBS_OWN, OBS_SHOWN]]
    counts = np.bitwise_count(held[:, :, None] >> (13 * np.arange(4)) & 8191).sum(axis=1, dtype=int)
    assert (np.diff(counts, axis=1) <= 0).all()
    again = suit_canonical.canonical_trajectories(batch)
    assert np.array_equal(own[rows, again.action], batch.action)
    probs = suit_canonical.CanonicalPolicy(UniformPolicy()).probs(observations)
    assert np.allclose(probs, UniformPolicy().probs(observations))
    twice, _ = suit_canonical.canonical_observations(other)  # canonical suits are unchanged
    assert np.array_equal(twice.observation[follows], other.observation[follows])


def test_trumps_and_known_voids_follow_their_suits(game, rng):
    observations = play(game, (UniformPolicy(), UniformPolicy()), 30, rng).batch.observations()
    other, own = suit_canonical.canonical_observations(observations)
    old_suit = own[:, ::13] // 13  # (R, 4) of each new suit
    rows, before, after = np.arange(len(own)), observations.observation, other.observation
    trumps = before[:, OBS_STRAIN] < NOTRUMP
    assert (after[:, OBS_STRAIN] != before[:, OBS_STRAIN]).any()
    assert np.array_equal(after[~trumps, OBS_STRAIN], before[~trumps, OBS_STRAIN])
    new = np.where(trumps, after[:, OBS_STRAIN], 0)
    assert np.array_equal(old_suit[rows, new][trumps], before[trumps, OBS_STRAIN])
    assert (after[:, OBS_VOID] != before[:, OBS_VOID]).any()
    for position in range(4):
        for suit in range(4):
            known = before[:, OBS_VOID] >> (4 * position + old_suit[:, suit]) & 1
            assert np.array_equal(after[:, OBS_VOID] >> (4 * position + suit) & 1, known)


def test_neighbours_are_cards_of_the_suit_at_most_two_ranks_away():
    cards, far = similar_cards()
    king = CARD_NAMES.index("SK")
    near = {CARD_NAMES[c]: d for c, d in zip(cards[king], far[king], strict=True) if c >= 0}
    assert near == {"SA": 1, "SQ": 1, "SJ": 2}  # the report's example
    for card, row in enumerate(cards):
        assert {abs(c - card) for c in row if c >= 0} <= {1, 2}
        assert all(c // 13 == card // 13 for c in row if c >= 0)


def test_double_dummy_play_takes_the_tricks_of_the_solvers_table(game, rng):
    deals = game.deal(15, rng)
    strains = (Denom.clubs, Denom.diamonds, Denom.hearts, Denom.spades, Denom.nt)
    for deal, tricks in zip(deals, double_dummy.declarer_tricks(deals), strict=True):
        table = dds.calc_dd_table(Deal(format_deal(deal[:CARDS])))
        assert table[strains[deal[CARDS]], Player.north] == tricks


def test_a_declarer_with_pimc_search_makes_more_contracts_than_a_random_one(rng):
    game = overtrick.make("minibridge", scoring="tricks")
    rules = make_opponent("rules", game, None)
    sampling = PimcPolicy(game, rules, UniformPolicy(), worlds=6)
    payoff = play(game, (sampling, rules), 40, rng, recorded=()).payoff
    assert (payoff[:, 0] > 0).mean() > 0.6  # 0.84 of 1,000; at random 0.29


def test_a_search_values_legal_cards_by_their_mean_over_the_sampled_deals(rng):
    """A contract is worth 1 or -1, so a mean over four deals is a multiple of a half."""
    game = overtrick.make("minibridge")
    observations = select_rows(some_rows(game, rng), np.arange(20))
    search = PimcPolicy(game, UniformPolicy(), UniformPolicy(), worlds=4)
    values = search.action_values(observations, rng)
    assert np.array_equal(np.isfinite(values), observations.legal)
    found = values[observations.legal]
    assert np.isin(found, [-1, -0.5, 0, 0.5, 1]).all()
    assert np.unique(found).size > 2


def test_deals_of_twelve_cards_are_played_like_full_deals(rng):
    deals = exhaustive_search.deal_twelve_cards(500, rng)
    assert ((deals[:, :CARDS, None] == np.arange(4)).sum(axis=1) == 3).all()
    assert {CARD_NAMES[card][1] for card in np.flatnonzero(deals[0, :CARDS] >= 0)} == set("QKA")
    game = overtrick.make("minibridge")
    payoff = play(game, (UniformPolicy(), UniformPolicy()), deals, rng).payoff[:, 0]
    cards, won = play_out(deals, "random", "random", rng)
    assert cards.shape == (500, 12)
    error = np.sqrt(0.5 / 500)
    assert (won >= 2).mean() == pytest.approx((payoff > 0).mean(), abs=4 * error)


def test_q_learning_finds_the_best_line_of_a_small_deal(rng):
    game = overtrick.make("minibridge")
    for deal in exhaustive_search.deal_twelve_cards(3, rng):
        best, line = exhaustive_search.contract_probability(deal)
        assert sorted(line) == sorted(CARD_NAMES[c] for c in np.flatnonzero(deal[:CARDS] >= 0))
        table = QTable(full, TabularConfig("q", 0.3, 0.9))
        deals = np.repeat(deal[None], 4000, axis=0)
        cards, won = play_out(deals, "random", "random", rng)
        table.learn(
            play_records.decision_trajectories(deals, cards, (0, 2), won >= deal[CARDS + 1])
        )
        policy = table.policy(False)
        reached, _ = exhaustive_search.contract_probability(deal, policy)
        assert reached <= best
        assert reached == pytest.approx(best, abs=0.05)
        payoff = play(game, (policy, UniformPolicy()), deals, rng).payoff[:, 0]
        assert (payoff > 0).mean() == pytest.approx(reached, abs=4 * np.sqrt(0.25 / 4000))


def test_an_unknown_state_abstraction_is_refused(game):
    with pytest.raises(UserError, match="unknown state abstraction 'prospect': did you mean"):
        game.state_keys("prospect")
