"""Features of the poker games, computed again from each deal by the list in the module's text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import overtrick
from overtrick.core import UserError
from overtrick.games.poker.betting_tree import build_betting_tree
from overtrick.games.poker.features import card_feature_count
from overtrick.games.poker.hand_ranking import seat_strengths
from overtrick.games.poker.holdem.hand_percentile import percentiles
from overtrick.games.poker.rules import LEDUC_TEXTBOOK, LIMIT_HOLDEM
from overtrick.policies.rollout import PRIVILEGED, play
from overtrick.policies.uniform import UniformPolicy

MOST_CHIPS = {"kuhn": 2, "kuhn_three": 2, "leduc": 14, "leduc_textbook": 13, "holdem": 50}


def decisions(name, games, rng, **options):
    """Return a game, the decisions of random play in order of time, and the deal of each."""
    game = overtrick.make(name, **options)
    deals = game.deal(games, rng)
    batch = play(game, [UniformPolicy()] * game.seats, deals, rng, privileged=True).batch
    order = np.lexsort((batch.observation[:, -1], batch.game))  # nodes are numbered in preorder
    rows = []
    for row in order:
        columns = zip(game.observation_fields, batch.observation[row].tolist(), strict=True)
        rows.append((int(row), int(batch.seat[row]), dict(columns), deals[batch.game[row]]))
    return game, batch, rows


def one_hot(index, size):
    """Return a list of zeros with a 1 at `index`, without any 1 if it is None."""
    return [float(k == index) for k in range(size)]


def raises_before(game, batch, rows):
    """Return the number of raises in each round before each decision, one-hot from 0 to 4."""
    counts, found = {}, {}
    for row, _, seen, _ in rows:
        now = counts.setdefault(int(batch.game[row]), [0] * 4)
        found[row] = [bit for count in now for bit in one_hot(count, 5)]
        now[seen["round"]] += game.action_names[batch.action[row]] == "raise"
    return found


@pytest.mark.parametrize("name", ["leduc", "leduc_textbook"])
def test_leducs_features_are_the_visible_cards_and_the_chips_of_both_seats(name, rng):
    game, batch, rows = decisions(name, 100, rng)
    features = game.features(batch.observations())
    for row, seat, seen, deal in rows:
        assert features[row].tolist() == [
            *one_hot(deal[seat], 3),
            *one_hot(deal[2] if seen["round"] else None, 3),
            *one_hot(seen["own_chips"], 15),
            *one_hot(seen["other_chips"], 15),
        ]
    assert game.card_features == 6


def test_features_without_a_board_are_the_card_and_the_betting_node(rng):
    game, batch, rows = decisions("kuhn", 50, rng)
    features = game.features(batch.observations())
    for row, seat, seen, deal in rows:
        assert features[row].tolist() == one_hot(deal[seat], 3) + one_hot(seen["betting"], 9)
    assert game.card_features == 3


def test_holdems_features_are_the_visible_cards_and_the_raises_of_each_round(rng):
    game, batch, rows = decisions("holdem", 40, rng)
    features = game.features(batch.observations())
    places = [rank + suit for suit in "shdc" for rank in "A23456789TJQK"]
    raises = raises_before(game, batch, rows)
    for row, seat, seen, deal in rows:
        visible = [*deal[2 * seat : 2 * seat + 2], *deal[4:][: (0, 3, 4, 5)[seen["round"]]]]
        names = {game.card_name(card) for card in visible}
        assert features[row].tolist() == [float(p in names) for p in places] + raises[row]
    assert game.card_features == 52


def test_holdems_features_of_strength_are_a_thermometer_chips_round_and_raises(rng):
    game, batch, rows = decisions("holdem", 20, rng, view="strength")
    features = game.features(batch.observations())
    raises = raises_before(game, batch, rows)
    for row, seat, seen, deal in rows:
        board = np.where(np.arange(5) < (0, 3, 4, 5)[seen["round"]], deal[4:], -1)
        strength = percentiles(deal[None, 2 * seat : 2 * seat + 2], board[None])[0]
        thermometer = [min(max(10 * strength - k, 0), 1) for k in range(10)]
        chips = seen["own_chips"] / 50, seen["other_chips"] / 50
        wanted = [*thermometer, *chips, chips[1] > chips[0], *one_hot(seen["round"], 4)]
        np.testing.assert_allclose(features[row], wanted + raises[row], atol=1e-6)
    assert game.card_features == card_feature_count(game.rules, "strength") == 10


@pytest.mark.parametrize("name", ["leduc", "leduc_textbook"])
def test_the_view_history_shows_cards_seat_and_all_actions(name, rng):
    game, batch, rows = decisions(name, 40, rng, view="history")
    features = game.features(batch.observations())
    taken: dict[int, list[int]] = {}  # actions of each game so far, in the order of play
    longest, actions = (features.shape[1] - 8) // game.actions, batch.action
    assert longest == max(map(len, game.betting.history)) - 1 == 7  # the last action ends a game
    node_of = {path: node for node, path in enumerate(game.betting.history)}
    in_order = sorted(rows, key=lambda each: len(game.betting.history[each[2]["betting"]]))
    for row, seat, seen, _ in in_order:
        path = taken.setdefault(int(batch.game[row]), [])
        assert node_of[tuple(path)] == seen["betting"]
        wanted = [*one_hot(seen["hole"], 3), *one_hot(seen["board"], 3), *one_hot(seat, 2)]
        for action in path:
            wanted += one_hot(action, game.actions)
        wanted += [0] * (features.shape[1] - len(wanted))
        assert features[row].tolist() == wanted
        path.append(int(actions[row]))


@pytest.mark.parametrize(("name", "cards"), [("leduc", 84), ("leduc_textbook", 81)])
def test_the_view_history_tells_all_information_sets_apart(name, cards, game_and_tree):
    """RLCard's features show chips and no actions, so that many information sets look alike."""
    for view, looks in (("history", 288), ("cards", cards)):
        game, tree = game_and_tree(name, view=view)
        assert len(np.unique(game.features(tree.observations), axis=0)) == looks


def test_rules_that_observations_or_features_cannot_hold_are_refused():
    with pytest.raises(UserError, match=r"can have 15 chips in the pot, .* see at most 14: lower"):
        replace(LEDUC_TEXTBOOK, raises=(2, 5))
    with pytest.raises(UserError, match=r"95,201 betting nodes, and .* at most 32,767: lower caps"):
        build_betting_tree(replace(LIMIT_HOLDEM, caps=(6, 6, 6, 6)))


@pytest.mark.parametrize("name", MOST_CHIPS)
def test_a_privileged_critic_sees_every_card_beginning_with_the_seat_to_act(name, rng):
    game, batch, rows = decisions(name, 40, rng)
    features, extra = game.features(batch.observations()), batch.extras[PRIVILEGED]
    most = MOST_CHIPS[name]
    assert np.array_equal(extra[:, : features.shape[1]], features)
    for row, seat, seen, deal in rows:
        if game.rules.best_five:
            hands = seat_strengths(deal[None].astype(np.int64), 2, 2)[0].tolist()
        else:
            cards = deal[: game.seats].tolist()
            hands = [card + 100 * (card in deal[game.seats :]) for card in cards]
        live = game.betting.live[batch.observation[row, -1]]
        hands = [hand if live[k] else -1 for k, hand in enumerate(hands)]
        own, rivals = hands[seat], hands[:seat] + hands[seat + 1 :]
        wanted = [own > max(rivals), own < max(rivals)]
        wanted += [seen["own_chips"] / most, seen["other_chips"] / most]
        order = [(seat + k) % game.seats for k in range(game.seats)]
        if game.rules.best_five:
            wanted += one_hot(seen["round"], 4)
            for shown in (0, 3, 4):
                board = np.where(np.arange(5) < shown, deal[4:], -1)
                wanted += [
                    percentiles(deal[None, 2 * k : 2 * k + 2], board[None])[0] for k in order
                ]
        else:
            visible = [*deal[order], *deal[game.seats :]]
            wanted += [bit for card in visible for bit in one_hot(card, game.rules.ranks)]
        np.testing.assert_allclose(extra[row, features.shape[1] :], wanted, atol=1e-6)
