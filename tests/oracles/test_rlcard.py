"""leduc equals RLCard's leduc-holdem and holdem its limit-holdem, decision by decision.

RLCard plays its games first, one at a time, and its observations are recorded. Then the same deals
and actions are played in one batch of ours.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
import rlcard

import overtrick

GAMES = 10_000
WEIGHTS = (3, 3, 1, 3)  # of call, raise, fold, check: few folds, so that games are long
PEERS = {"leduc": "leduc-holdem", "holdem": "limit-holdem"}
CARDS = {
    "leduc": list("JQK"),
    "holdem": [suit + rank for rank in "23456789TJQKA" for suit in "CDHS"],
}
"""Our cards by their names."""


@dataclass
class RecordedGame:
    """A game of RLCard, with seats renumbered so that the small blind is seat 0."""

    deal: list  # small blind's cards, big blind's cards, board
    seat: list = field(default_factory=list)
    observation: list = field(default_factory=list)
    legal: list = field(default_factory=list)
    action: list = field(default_factory=list)
    payoff: list = field(default_factory=list)


def card(name, theirs):
    """Return our card for one of RLCard's."""
    return CARDS[name].index(theirs.rank if name == "leduc" else theirs.get_index())


def record(name, env, random, board):
    """Play a game by random legal actions and record it; board: number of board cards."""
    table = env.game
    # otherwise limit-holdem first shows the board of the last game
    table.history_raise_nums = [0] * 4
    state, player = env.reset()
    small = player  # the small blind is drawn at random, and acts first
    hands = [table.players[seat].hand for seat in (small, 1 - small)]
    own = [each for hand in hands for each in (hand if isinstance(hand, list) else [hand])]
    deck = table.dealer.deck  # its last card is dealt next, also after a fold
    game = RecordedGame([card(name, each) for each in own + deck[: -1 - board : -1]])
    while not env.is_over():
        legal = list(state["legal_actions"])
        (action,) = random.choices(legal, [WEIGHTS[a] for a in legal])
        game.seat.append((player - small) % 2)
        game.observation.append(state["obs"])
        game.legal.append(legal)
        game.action.append(action)
        state, player = env.step(action)
    payoff = env.get_payoffs()
    game.payoff = [payoff[small], payoff[1 - small]]
    return game


@pytest.fixture(scope="module", params=PEERS)
def recorded(request):
    """Return a game's name, and games that RLCard played of it."""
    name = request.param
    env, action_rng = rlcard.make(PEERS[name], config={"seed": 5}), random.Random(6)
    board = sum(overtrick.make(name).rules.board)
    return name, [record(name, env, action_rng, board) for _ in range(GAMES)]


def test_a_game_equals_rlcards_at_every_decision_of_10_000_games(recorded):
    name, theirs = recorded
    game = overtrick.make(name)
    assert game.action_names == ("call", "raise", "fold", "check")
    lengths = np.array([len(r.action) for r in theirs])
    starts = np.cumsum(lengths) - lengths
    seat = np.concatenate([r.seat for r in theirs])
    action = np.concatenate([r.action for r in theirs])
    observation = np.concatenate([r.observation for r in theirs])
    legal = np.zeros((len(action), 4), bool)
    rows = np.repeat(np.arange(len(action)), [len(one) for r in theirs for one in r.legal])
    legal[rows, [a for r in theirs for one in r.legal for a in one]] = True

    state = game.start(np.array([r.deal for r in theirs]))
    payoff = np.zeros((GAMES, 2))
    time, decisions, infosets_met = 0, 0, set()
    while len(observations := game.observe(state)):
        assert np.array_equal(
            observations.game, np.flatnonzero(lengths > time)
        )  # games end together
        now = starts[observations.game] + time
        assert np.array_equal(observations.seat, seat[now])
        assert np.array_equal(observations.legal, legal[now])
        assert np.array_equal(game.features(observations), observation[now])
        infosets_met.update(
            (
                observations.observation[:, -1]
                if observations.infoset is None
                else observations.infoset
            ).tolist()
        )
        payoff += game.step(state, observations, action[now])
        decisions += len(now)
        time += 1
    assert decisions == len(action)
    assert np.array_equal(payoff, [r.payoff for r in theirs])
    if game.infosets is not None:
        assert len(infosets_met) == game.infosets  # every decision of the game was compared
    else:
        assert set(game.betting.round[sorted(infosets_met)]) == {0, 1, 2, 3}
        assert (payoff == 0).any(axis=1).sum() > 50  # split pots
        assert len(infosets_met) > 2_000  # of 8,200 betting nodes


@pytest.mark.parametrize("name", PEERS)
def test_rlcards_small_blind_sits_in_either_seat_half_the_time(name, chi_square_p):
    """Therefore figures of these games are means over both seats."""
    env = rlcard.make(PEERS[name], config={"seed": 8})
    first = [env.reset()[1] for _ in range(1000)]
    assert chi_square_p(np.bincount(first), np.array([0.5, 0.5])) > 1e-4


def test_rlcard_deals_with_the_probabilities_of_our_games(recorded, chi_square_p):
    name, theirs = recorded
    game = overtrick.make(name)
    deals = np.array([r.deal for r in theirs])
    if game.infosets is None:  # too many deals to list: each column by itself
        cards = game.rules.ranks * game.rules.suits
        for column in deals.T:
            counts = np.bincount(column, minlength=cards)
            assert chi_square_p(counts, np.full(cards, 1 / cards)) > 1e-4
    else:
        every, probability = game.every_deal()
        place = {tuple(deal): i for i, deal in enumerate(every.tolist())}
        counts = np.bincount([place[tuple(deal)] for deal in deals.tolist()], minlength=len(every))
        assert chi_square_p(counts, probability) > 1e-4
