"""Leduc in the benchmark dialect is RLCard's leduc-holdem, decision by decision.

RLCard plays its games first, one at a time, and everything that it shows is recorded; then the
same deals and actions are played side by side in one batch of ours.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
import rlcard

GAMES = 10_000
RANKS = "JQK"
WEIGHTS = (3, 3, 1, 3)  # of call, raise, fold, check: few folds, so that games go deep


@dataclass
class Recorded:
    """One game of RLCard, with its seats renumbered so that the small blind is seat 0."""

    deal: list  # ranks: small blind's card, big blind's card, board
    seat: list = field(default_factory=list)
    observation: list = field(default_factory=list)
    legal: list = field(default_factory=list)
    action: list = field(default_factory=list)
    payoff: list = field(default_factory=list)


def record(env, luck):
    """A whole game by random legal actions."""
    state, player = env.reset()
    small = player  # the small blind is drawn at random, and acts first
    table = env.game
    # a fold before the flop leaves the board in the deck: it would have been the next card
    cards = [table.players[small].hand, table.players[1 - small].hand, table.dealer.deck[-1]]
    game = Recorded([RANKS.index(card.rank) for card in cards])
    while not env.is_over():
        legal = list(state["legal_actions"])
        (action,) = luck.choices(legal, [WEIGHTS[a] for a in legal])
        game.seat.append((player - small) % 2)
        game.observation.append(state["obs"])
        game.legal.append(legal)
        game.action.append(action)
        state, player = env.step(action)
    payoff = env.get_payoffs()
    game.payoff = [payoff[small], payoff[1 - small]]
    return game


@pytest.fixture(scope="module")
def recorded():
    env = rlcard.make("leduc-holdem", config={"seed": 5})
    luck = random.Random(6)
    return [record(env, luck) for _ in range(GAMES)]


def test_leduc_is_rlcards_leduc_holdem_at_every_decision_of_10_000_games(recorded, whole):
    game, tree = whole("leduc")
    assert game.action_names == ("call", "raise", "fold", "check")
    lengths = np.array([len(r.action) for r in recorded])
    starts = np.cumsum(lengths) - lengths
    seat = np.concatenate([r.seat for r in recorded])
    action = np.concatenate([r.action for r in recorded])
    observation = np.concatenate([r.observation for r in recorded])
    legal = np.zeros((len(action), 4), bool)
    rows = np.repeat(np.arange(len(action)), [len(one) for r in recorded for one in r.legal])
    legal[rows, [a for r in recorded for one in r.legal for a in one]] = True

    state = game.start(np.array([r.deal for r in recorded]))
    payoff = np.zeros((GAMES, 2))
    time, decisions, seen = 0, 0, set()
    while len(turn := game.turn(state)):
        assert np.array_equal(turn.game, np.flatnonzero(lengths > time))  # games end together
        now = starts[turn.game] + time
        assert np.array_equal(turn.seat, seat[now])
        assert np.array_equal(turn.legal, legal[now])
        assert np.array_equal(game.features(turn), observation[now])
        seen.update(turn.infoset.tolist())
        payoff += game.step(state, turn, action[now])
        decisions += len(now)
        time += 1
    assert decisions == len(action)
    assert np.array_equal(payoff, [r.payoff for r in recorded])
    assert len(seen) == tree.infosets  # every decision of the game was compared


def test_rlcards_small_blind_sits_in_either_seat_half_the_time(likelihood):
    """The reason why figures of this game are means over both seats."""
    env = rlcard.make("leduc-holdem", config={"seed": 8})
    first = [env.reset()[1] for _ in range(1000)]
    assert likelihood(np.bincount(first), np.array([0.5, 0.5])) > 1e-4


def test_rlcard_deals_as_leduc_does(recorded, whole, likelihood):
    game, _ = whole("leduc")
    deals, probability = game.every_deal()
    place = {tuple(deal): i for i, deal in enumerate(deals.tolist())}
    counts = np.bincount([place[tuple(r.deal)] for r in recorded], minlength=len(deals))
    assert likelihood(counts, probability) > 1e-4
