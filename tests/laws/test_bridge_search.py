"""Laws of the bridge search: sampled deals and their weights, alpha-mu, signals, time limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.random import Generator
from tests.bridge_play import mask, played_boards

import overtrick
from overtrick.core import Observations, UserError, select_rows
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.board_observation import (
    card_play_observations,
    in_card_play,
)
from overtrick.games.bridge.cardplay import defence_signals, kernels
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer
from overtrick.games.bridge.cardplay.defence_signals import (
    Signals,
    parse_signals,
    signalling_card,
    signals_by_position,
)
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, NOTRUMP, TRICKS, hand_bits
from overtrick.games.bridge.players import card_likelihood, search_player
from overtrick.games.bridge.players.alpha_mu import Position, alpha_mu
from overtrick.games.bridge.players.board_player import BoardPlayer, BoardPolicy
from overtrick.games.bridge.players.double_dummy_player import (
    DoubleDummyPlayer,
    tricks_after_each_card,
)
from overtrick.games.bridge.players.search_player import SearchPlayer
from overtrick.games.bridge.players.worlds import FIRST_SOLVED, Beliefs, Worlds, WorldSampler
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.contradicted_calls import count_contradicted_calls
from overtrick.games.bridge.trick_rules import NO_CARD, beats

NOBODY = np.zeros((4, 2), np.int64)  # signals by position


@pytest.fixture(scope="module")
def natural():
    return loader.load("natural")


@pytest.fixture
def careful(natural):
    return BoardPolicy(SystemBidder(natural, natural), CarefulPlayer())


def test_sampled_worlds_agree_with_the_cards_seen_and_mostly_with_the_calls(careful, natural, rng):
    """Weights follow the calls: worlds without beliefs contradict them far more often."""
    game, seen, _ = played_boards(careful, 40, rng)
    wrong, systems = {}, (natural, natural)
    for rows in (seen[12], seen[24], seen[36]):
        for row in np.flatnonzero(in_card_play(rows))[:4]:
            one = select_rows(rows, np.array([row]))
            for name, beliefs in (
                ("uniform", Beliefs()),
                ("informed", Beliefs(systems, rule_share=0.4)),
                ("solved", Beliefs(systems, rule_share=0.2, best_share=0.6)),
            ):
                worlds = WorldSampler(beliefs).sample(one, 20, rng)
                assert worlds.weight.sum() == pytest.approx(1)
                deals = np.full((len(worlds.holder), 74), -1, np.int8)
                deals[:, :CARDS] = worlds.holder
                deals[:, CARDS:54] = one.observation[0, [obs.DEALER, obs.VULNERABLE]]
                many = select_rows(one, np.zeros(len(deals), np.int64))
                again = game.observe(game.resume(many, deals))
                assert np.array_equal(again.observation, many.observation)
                assert np.array_equal(again.legal, many.legal)
                contradicted = count_contradicted_calls(
                    hand_bits(worlds.holder), range(4),
                    obs.calls_from_observation(many.observation[0]),
                    int(many.observation[0, obs.DEALER]), int(many.observation[0, obs.VULNERABLE]),
                    natural, natural,
                )  # fmt: skip
                wrong.setdefault(name, []).append(worlds.weight @ contradicted)
    for name in ("informed", "solved"):
        assert np.mean(wrong[name]) < 0.3 * np.mean(wrong["uniform"])


def test_search_plays_double_dummy_if_it_knows_the_deal(careful, rng):
    """With the true deal as its only world, the search loses no trick, from the first lead on."""
    game, seen, state = played_boards(careful, 12, rng)
    players, played = (SearchPlayer(goal="tricks"), SearchPlayer(goal="tricks", moves=2)), 0
    for rows in (seen[16], seen[28], seen[40]):
        for row in np.flatnonzero(in_card_play(rows)):
            one = select_rows(rows, np.array([row]))
            deal = state.deal[one.game]
            cards = card_play_observations(one).observation[0]
            tricks = tricks_after_each_card(game.resume(one, deal))[0]
            for player in players:
                values = player.card_values(one, cards, Worlds(deal[:, :CARDS], np.ones(1)))
                best = values == values.max()
                assert (tricks[best] == tricks.max()).all()
                assert player.moves > 1 or np.array_equal(best, tricks == tricks.max())
            played += tricks[tricks >= 0].min() < tricks.max()
    assert played > 3  # some cards would lose a trick


def test_the_probabilities_of_the_cards_that_can_be_played_sum_to_one(rng):
    """By the rules, where touching honours share the probability, and among the best cards."""
    game = overtrick.make("minibridge")
    deals = game.deal(40, rng)
    hands, strain = hand_bits(deals[:, :CARDS]), int(deals[0, CARDS])
    leaders = np.array([False, True, False, False])
    for dealt in hands[:4, None]:
        by_rules = best = 0.0
        for card in np.flatnonzero(dealt[0, 1] >> np.arange(CARDS) & 1):
            cards = np.array([card])
            likely, choices = card_likelihood.rule_likelihood(dealt, leaders, cards, strain, NOBODY)
            assert choices[0, 0] == TRICKS
            by_rules += likely[0, 0]
            turns = card_likelihood.playing_positions(cards, strain)
            best += card_likelihood.best_likelihood(dealt, leaders, cards, turns, strain, 0)[0, 0]
        assert (by_rules, best) == (pytest.approx(1), pytest.approx(1))


def test_cards_of_a_double_dummy_player_are_never_impossible_for_one(careful, natural, rng):
    game = overtrick.make("bridge")
    deals = game.deal(3, rng)
    bidder, perfect = SystemBidder(natural, natural), DoubleDummyPlayer(deals)
    state, session = game.start(deals), BoardPlayer(bidder, perfect, careful).start(3, rng)
    while len(rows := game.observe(state)):
        game.step(state, rows, session.act(rows).action)
    for board in np.flatnonzero(state.declarer >= 0):
        order = (state.declarer[board] + np.arange(4)) % 4
        dealt = hand_bits(deals[[board], :CARDS])[:, order]
        cards, strain = state.cards[board].astype(np.int64), state.progress[board, kernels.STRAIN]
        turns = card_likelihood.playing_positions(cards, strain)
        everyone = np.ones(4, np.bool_)
        likely = card_likelihood.best_likelihood(dealt, everyone, cards, turns, strain, 20)[0]
        assert (likely[turns % 2 == 0] > 0).all()  # the declaring side is perfect
        assert (likely[:20] == 1).all()


@pytest.mark.parametrize("shares", [(0.3, 0.5), (0.0, 0.55)])
def test_worlds_of_an_ending_have_the_probabilities_of_bayes_rule(shares, careful, rng):
    """Enumerate all deals that are possible before the last four tricks; compare with samples."""
    game, seen, _ = played_boards(careful, 8, rng)
    beliefs = Beliefs(None, rule_share=shares[0], best_share=shares[1])
    ending = next(rows for rows in reversed(seen) if (rows.observation[:, -14] < 0).all())
    row = int(np.flatnonzero(in_card_play(ending))[0])
    mine = [select_rows(rows, np.flatnonzero(rows.game == ending.game[row])) for rows in seen]
    seat = ending.observation[row, obs.SEAT]
    mine = [one for one in mine if len(one) and one.observation[0, obs.SEAT] == seat]
    mine = [one for one in mine if in_card_play(one)[0] and (one.observation[0, -14:] < 0).all()]
    last, drawn = mine[-1], {}
    for _ in range(16):
        sampler = WorldSampler(beliefs)
        for one, count in zip(mine[-3:], (100, 30, 100), strict=True):
            worlds = sampler.sample(one, count, rng)
        for holder, weight in zip(worlds.holder, worlds.weight, strict=True):
            drawn[holder.tobytes()] = drawn.get(holder.tobytes(), 0.0) + weight / 16
    exact = _posterior(game, last, shares, rng)
    assert set(drawn) <= set(exact)
    distance = sum(abs(exact[key] - drawn.get(key, 0.0)) for key in exact) / 2
    assert distance < 0.12
    assert max(exact.values()) > 2 * min(exact.values())  # the cards played tell something


def _posterior(game, one, shares, rng):
    """Return the probability of each deal (52 bytes) that agrees with one late observation."""
    many = select_rows(one, np.zeros(3000, np.int64))
    deals = np.unique(game.redeal(many, rng)[:, :CARDS], axis=0)  # there are few
    cards = card_play_observations(one).observation[0]
    strain, seat = int(cards[kernels.OBS_STRAIN]), int(one.observation[0, obs.SEAT])
    declarer = search_player.declarer_from_position(seat, int(cards[kernels.OBS_POSITION]))
    order = (declarer + np.arange(4)) % 4
    played = one.observation[0, -CARDS:][: cards[kernels.OBS_COUNT]]
    hidden = (order != seat) & (np.arange(4) != 2)
    hands, turns = hand_bits(deals)[:, order], card_likelihood.playing_positions(played, strain)
    likely, choices = card_likelihood.rule_likelihood(hands, hidden, played, strain, NOBODY)
    best = card_likelihood.best_likelihood(hands, hidden, played, turns, strain, FIRST_SOLVED)
    late = np.arange(len(played)) >= FIRST_SOLVED
    mixed = np.where(
        late,
        shares[0] * likely + shares[1] * best + (1 - sum(shares)) / choices,
        shares[0] * likely + (1 - shares[0]) / choices,
    )
    weight = np.where(choices == 1, 1.0, mixed).prod(axis=1)
    return dict(zip((each.tobytes() for each in deals), weight / weight.sum(), strict=True))


# -------------------------------------------------------------------------------- alpha-mu


def test_a_two_way_finesse_is_a_guess():
    """Either opponent may hold the queen: double dummy it is always found, else half the time."""
    splits = [("Q98", "765"), ("Q76", "985"), ("765", "Q98"), ("985", "Q76")]
    rows = [[mask(f"{held}...") for held in ("AJ2", left, "KT3", right)] for left, right in splits]
    position = Position(np.array(rows, np.int64), np.full(4, NO_CARD), 0, 0, NOTRUMP)
    tricks = np.arange(14.0)
    for weight in (np.full(4, 0.25), np.array([0.4, 0.4, 0.1, 0.1])):
        values = [alpha_mu(position, tricks, weight, moves).max() for moves in (1, 9)]
        exact = max(weight @ each for each in _strategies(rows, [], 0, NOTRUMP))
        assert values == [pytest.approx(3), pytest.approx(exact)]
        assert exact == pytest.approx(2 + max(weight[:2].sum(), weight[2:].sum()))


def test_alpha_mu_values_are_those_of_all_strategies_of_small_endings(rng):
    """An independent search over all pure strategies, against opponents who see all cards."""
    for cards in (2,) * 24 + (3,) * 2:
        deck = rng.permutation(TRICKS if rng.random() < 0.5 else CARDS)[: 4 * cards]
        own, rest = deck[: 2 * cards].reshape(2, cards), deck[2 * cards :]
        rows = []
        for _ in range(4):
            left, right = rng.permutation(rest).reshape(2, cards)
            rows.append([_bits(own[0]), _bits(left), _bits(own[1]), _bits(right)])
        strain, leader = int(rng.integers(5)), int(rng.choice([0, 2]))
        position = Position(np.array(rows, np.int64), np.full(4, NO_CARD), leader, 0, strain)
        weight = rng.dirichlet(np.ones(4))
        values = [alpha_mu(position, np.arange(14.0), weight, m).max() for m in (1, 2, 3, 9)]
        exact = max(weight @ each for each in _strategies(rows, [], leader, strain))
        assert values[-1] == pytest.approx(exact)
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))


def _bits(cards):
    return sum(1 << int(card) for card in cards)


def _strategies(hands, trick, leader, strain):
    """Return the set of utility vectors of the declaring side's pure strategies, for each deal.

    hands: for each deal the four hands as bit masks; None for deals that no longer agree with play.
    """
    if len(trick) == 4:
        winner = 0
        for k in range(1, 4):
            if beats(trick[k], trick[winner], strain):
                winner = k
        leader, gain = (leader + winner) % 4, int((leader + winner) % 2 == 0)
        return {
            tuple(each + gain for each in vector)
            for vector in _strategies(hands, [], leader, strain)
        }
    turn = (leader + len(trick)) % 4
    alive = [hand for hand in hands if hand is not None]
    if not any(alive[0]):
        return {tuple(0 for _ in hands)}
    legal = [0 if hand is None else _legal(hand[turn], trick) for hand in hands]
    branches = []
    for card in range(CARDS):
        if any(each >> card & 1 for each in legal):
            after = [
                [held & ~(1 << card) for held in hand] if each >> card & 1 else None
                for hand, each in zip(hands, legal, strict=True)
            ]
            branches.append(
                ([each >> card & 1 for each in legal],
                 _strategies(after, [*trick, card], leader, strain))
            )  # fmt: skip
    if turn % 2 == 0:
        return set().union(*(vectors for _, vectors in branches))
    joined = {tuple(13 for _ in hands)}
    for possible, vectors in branches:
        joined = {
            tuple(min(a, b) if can else a for a, b, can in zip(one, other, possible, strict=True))
            for one in joined
            for other in vectors
        }
    return joined


def _legal(held, trick):
    same = held & (8191 << (13 * (trick[0] // 13))) if trick else held
    return same or held


# -------------------------------------------------------------------------------- signals


@pytest.mark.parametrize(
    ("hand", "trick", "standard", "upside_down"),
    [
        # dummy leads the king and the left-hand defender follows last: count
        (".742..", {2: ".K..", 3: ".3..", 0: ".5.."}, "H2", "H7"),
        (".74..", {2: ".K..", 3: ".3..", 0: ".5.."}, "H7", "H4"),
        (".9742..", {2: ".K..", 3: ".3..", 0: ".5.."}, "H9", "H2"),
        # partner leads the ace and dummy plays low: attitude
        (".K82..", {1: ".A..", 2: ".3.."}, "H8", "H2"),
        (".852..", {1: ".A..", 2: ".3.."}, "H2", "H8"),
        # a card that wins the trick signals nothing
        (".742..", {2: ".3..", 3: "2...", 0: "3..."}, "H4", "H4"),
    ],
)
def test_small_cards_of_defenders_signal(hand, trick, standard, upside_down):
    for method, expected in (("standard", standard), ("upside-down", upside_down)):
        position = (max(trick, key=list(trick).index) + 1) % 4
        signals = parse_signals(f"count {method}, attitude {method}")
        seen = np.zeros(kernels.OBSERVATION_WIDTH, np.int64)
        seen[kernels.OBS_POSITION], seen[kernels.OBS_STRAIN] = position, NOTRUMP
        seen[kernels.OBS_OWN] = mask(hand)
        seen[kernels.OBS_TRICK : kernels.OBS_PLAYED] = NO_CARD
        for at, card in trick.items():
            bits = mask(card)
            seen[kernels.OBS_TRICK + at] = bits.bit_length() - 1
            seen[kernels.OBS_PLAYED + at] |= bits
        seen[kernels.OBS_COUNT] = 8 + len(trick)
        by_position = signals_by_position(0, Signals(), signals)
        assert CARD_NAMES[signalling_card(seen, by_position)] == expected
        silent = signalling_card(seen, signals_by_position(0, signals, Signals()))
        assert silent == signalling_card(seen, NOBODY)  # only defenders signal


def test_signals_are_read_as_they_are_described():
    for text in ("count standard", "count upside-down, attitude standard", "none"):
        assert defence_signals.describe_signals(parse_signals(text)) == text
    for text, part in (
        ("length standard", "length"),
        ("count loud", "loud"),
        ("count", "none, standard"),
        ("", "write"),
        ("count none,", "write"),
        ("count none, count standard", "named twice"),
    ):
        with pytest.raises(UserError, match=part):
            parse_signals(text)


def test_a_signal_tells_partner_about_an_honour():
    """Partner leads the ace of hearts, dummy plays the three, and the eight encourages."""
    hands = np.array(
        [[0, mask(".A.."), mask(".3.."), mask(held)] for held in (".K82..", ".852..")],
        np.int64,
    )
    cards = np.array([_card(".A.."), _card(".3.."), _card(".8..")])
    counted = np.array([False, False, False, True])
    for method, expected in (("standard", [1, 0]), ("upside-down", [0, 1]), ("none", [0, 0])):
        signals = signals_by_position(0, Signals(), parse_signals(f"attitude {method}"))
        likely, choices = card_likelihood.rule_likelihood(hands, counted, cards, NOTRUMP, signals)
        assert likely[:, 2].tolist() == expected
        assert choices[:, 2].tolist() == [3, 3]


def _card(hand):
    return mask(hand).bit_length() - 1


# -------------------------------------------------------------------------------- time limit


def test_a_time_limit_doubles_the_deals_while_time_is_left(careful, rng, monkeypatch):
    """With a clock that moves on one second for each deal, 60 seconds are 8 + 16 + 32 deals."""
    _, seen, _ = played_boards(careful, 4, rng)
    rows = seen[32]
    one = select_rows(rows, np.flatnonzero(in_card_play(rows))[:1])
    rounds, now = [], [0.0]

    class Sampler(WorldSampler):
        def sample(
            self, observations: Observations, count: int, rng: Generator, fewest: float = 0.5
        ) -> Worlds:
            now[0] += count
            worlds = super().sample(observations, count, rng, fewest)
            rounds.append((count, len(worlds.weight)))
            return worlds

    monkeypatch.setattr(search_player.time, "perf_counter", lambda: now[0])
    for limit in (5.0, 60.0):
        beliefs = Beliefs(None, rule_share=0.2, best_share=0.2)
        SearchPlayer(seconds=limit).choose(one, Sampler(beliefs), rng)
    counts, distinct = zip(*rounds, strict=True)
    assert counts == (8, 8, 16, 32)  # after 56 of 60 seconds, 64 more deals would take too long
    assert distinct[1] < distinct[2] < distinct[3]


def test_a_time_limit_ends_when_there_are_no_further_deals(careful, rng):
    _, seen, _ = played_boards(careful, 4, rng)
    late = next(rows for rows in reversed(seen) if rows.legal.sum(axis=1).max() == 2)
    row = np.flatnonzero(late.legal.sum(axis=1) == 2)[:1]
    SearchPlayer(seconds=600.0).choose(select_rows(late, row), WorldSampler(Beliefs()), rng)
