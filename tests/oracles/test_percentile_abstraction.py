"""The abstraction of limit hold'em by percentiles, against the game itself."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.core import UserError
from overtrick.core.files import read_weights
from overtrick.evaluation.lower_bound import lower_bound
from overtrick.games import registry
from overtrick.games.poker.holdem import percentile_abstraction
from overtrick.games.poker.holdem.hand_percentile import percentiles
from overtrick.games.poker.holdem.percentile_abstraction import BUCKETS, PercentileAbstraction
from overtrick.games.poker.scripted_players import HOLDEM
from overtrick.policies.rollout import play, play_duplicate
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.lookahead.abstraction_response import abstraction_response
from overtrick.solvers.public_tree import values

GAME = registry.make("holdem")


@pytest.fixture(scope="module")
def abstraction() -> PercentileAbstraction:
    found = registry.hand_abstraction(GAME)
    assert isinstance(found, PercentileAbstraction)
    return found


def test_the_stored_tables_are_those_of_sampled_deals() -> None:
    stored = read_weights(percentile_abstraction.FILE)
    counted = percentile_abstraction.estimate_tables(GAME, 20_000, np.random.default_rng(5))
    assert stored["start"].sum() == pytest.approx(1)
    assert stored["start"] == pytest.approx(np.full(BUCKETS, 1 / BUCKETS), abs=0.01)
    assert stored["moves"].sum(axis=2) == pytest.approx(np.ones((3, BUCKETS)))
    # of one seat's win against a hand of any bucket: on the river, the percentile itself
    assert stored["win"].mean(axis=1) == pytest.approx((np.arange(BUCKETS) + 0.5) / 20, abs=0.01)
    assert stored["win"] + stored["win"].T == pytest.approx(np.ones((BUCKETS, BUCKETS)))
    for name, table in stored.items():
        assert np.abs(counted[name] - table).mean() < 0.02, name


def test_the_percentiles_of_two_seats_are_almost_independent() -> None:
    deals = GAME.deal(20_000, np.random.default_rng(1))
    for shown in (0, 3, 4):
        board = np.full((len(deals), 5), -1)
        board[:, :shown] = deals[:, 4 : 4 + shown]
        both = percentiles(deals[:, :2], board), percentiles(deals[:, 2:4], board)
        assert abs(np.corrcoef(*both)[0, 1]) < 0.06


def test_a_threshold_player_is_tabulated_by_its_thresholds(
    abstraction: PercentileAbstraction,
) -> None:
    """Its thresholds 0.2 and 0.55 are borders of buckets."""
    player = HOLDEM["la"](GAME)
    table = abstraction.tabulate(player, np.random.default_rng(0))
    table = table.reshape(-1, BUCKETS, GAME.actions)
    call, raise_, fold, check = range(4)
    opening = table[0]  # the small blind's first decision
    assert (opening[:4, fold] == 1).all()
    assert (opening[4:11, call] == 1).all()
    assert (opening[11:, raise_] == 1).all()
    assert set(np.unique(table)) == {0, 1}
    assert check in table.argmax(axis=2)


def test_values_of_the_abstraction_are_close_to_those_of_the_game(
    abstraction: PercentileAbstraction,
) -> None:
    indexed = values.index_game(abstraction.bucketed_game)
    for name in ("la", "ta"):
        player, rng = HOLDEM[name](GAME), np.random.default_rng(2)
        table = abstraction.tabulate(player, rng)
        for seat in range(2):
            mixed = np.where((indexed.seat == seat)[:, None], table, indexed.uniform())
            expected = values.expected(indexed, mixed)[seat]
            policies = [UniformPolicy(), UniformPolicy()]
            policies[seat] = player
            payoff = play(GAME, policies, 20_000, rng, recorded=()).payoff[:, seat]
            error = payoff.std() / len(payoff) ** 0.5
            assert expected == pytest.approx(payoff.mean(), abs=4 * error + 0.05)


def test_a_policy_of_a_strategy_plays_like_its_table(abstraction: PercentileAbstraction) -> None:
    player, rng = HOLDEM["lp"](GAME), np.random.default_rng(3)
    table = abstraction.tabulate(player, rng)
    again = abstraction.tabulate(abstraction.policy(table), rng)
    assert np.abs(again - table).max() < 1e-9


@pytest.mark.parametrize("name", ["la", "lp"])
def test_the_best_response_in_the_abstraction_beats_a_local_one(
    abstraction: PercentileAbstraction, name: str
) -> None:
    better = lower_bound(GAME, name, {"games": 20_000})
    local = lower_bound(GAME, name, {"games": 100, "particles": 30})
    assert (better["response"], local["response"]) == ("abstraction", "local")
    assert better["mean"] > local["mean"] - 2 * local["standard_error"]
    assert better["mean"] > {"la": 0.88, "lp": 0.66}[name]  # PPO reaches 0.88 and 0.69
    # the value that the abstraction itself expects
    indexed = values.index_game(abstraction.bucketed_game)
    table = abstraction.tabulate(HOLDEM[name](GAME), np.random.default_rng(0))
    expected = values.best_responses(indexed, table)[0].mean()
    assert better["mean"] == pytest.approx(expected, abs=0.12)


def test_a_best_response_is_no_worse_than_other_play(abstraction: PercentileAbstraction) -> None:
    indexed, rng = values.index_game(abstraction.bucketed_game), np.random.default_rng(4)
    opponent = HOLDEM["ta"](GAME)
    response = abstraction_response(indexed, abstraction.tabulate(opponent, rng))
    _, best = play_duplicate(GAME, abstraction.policy(response), opponent, 4_000, rng)
    for name in ("call", "la", "lp"):
        _, other = play_duplicate(GAME, HOLDEM[name](GAME), opponent, 4_000, rng)
        assert best.mean() > other.mean()


def test_the_hidden_decisions_of_a_game_are_those_of_every_possible_hand(
    abstraction: PercentileAbstraction,
) -> None:
    deals = GAME.deal(1, np.random.default_rng(6))
    state, seats, actions, true_rows = (
        GAME.start(deals),
        list[int](),
        [0, 3, 1, 0, 1, 2],
        list[int](),
    )
    for action in actions:  # call, check, raise on the flop, call, raise on the turn, fold
        observations = GAME.observe(state)
        seats += observations.seat.tolist()
        true_rows += abstraction.rows(observations).tolist()
        GAME.step(state, observations, np.array([action]))
    assert seats == [0, 1, 0, 1, 0, 1]
    cards = deals[0].copy()
    cards[[2, 3, 8]] = -1  # the hand of seat 1, and the river
    rows, taken = abstraction.opponent_decisions(0, tuple(cards.tolist()), tuple(actions), 0.0)
    assert taken.tolist() == [3, 0, 2]
    seen = 6
    hands = (52 - seen) * (51 - seen) // 2
    assert rows.shape == (3, hands)
    true = np.array(true_rows)[np.array(seats) == 1]
    assert (rows == true[:, None]).all(axis=0).any()
    cards[2:4] = deals[0, 2:4]
    shown, _ = abstraction.opponent_decisions(0, tuple(cards.tolist()), tuple(actions), 0.0)
    assert shown.tolist() == [[row] for row in true]


def test_a_payoff_at_a_showdown_excludes_hands(abstraction: PercentileAbstraction) -> None:
    """All check and call to the end; the hands that are left beat, tie or lose to the seat's."""
    deal = GAME.deal(1, np.random.default_rng(7))[0].astype(int)
    actions = (0, 3, 3, 3, 3, 3, 3, 3)
    assert GAME.ends_with_showdown(actions)
    assert abstraction.dealt_cards(actions) == 9
    cards = (*deal[:2].tolist(), -1, -1, *deal[4:].tolist())
    sizes = [
        abstraction.opponent_decisions(0, cards, actions, payoff)[0].shape[1]
        for payoff in (1.0, 0.0, -1.0)
    ]
    assert sum(sizes) == 45 * 44 // 2
    others = [h for h in percentile_abstraction._pairs(52).tolist() if not set(h) & set(cards)]
    deals = np.array([[*cards[:2], *other, *cards[4:]] for other in others], np.int16)
    strength = GAME.start(deals).strength
    better = np.sign(strength[:, 0] - strength[:, 1])
    assert sizes == [(better == sign).sum() for sign in (1, 0, -1)]


@pytest.mark.parametrize("games", [0, 2, 5])
def test_a_bound_needs_an_even_number_of_games(games: int) -> None:
    with pytest.raises(UserError, match=f"^{games} games: a bound needs an even number, 4 or more"):
        lower_bound(GAME, "call", {"games": games})
