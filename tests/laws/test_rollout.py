"""Laws of the rollout loop and of the trajectories that it records."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import overtrick
from overtrick.core import Actions, Enumerable, Observations, concatenate_trajectories
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.games.bridge.auction.game import DD_TABLE, Auction
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.system.loader import load
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.rollout import play, play_duplicate, random_seating, select_policy_decisions
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response

GAMES = [name for name in overtrick.names() if overtrick.make(name).actions is not None]
SMALL = [name for name in GAMES if isinstance(overtrick.make(name), Enumerable)]
CALL, RAISE, FOLD, CHECK = range(4)  # actions of leduc


@pytest.fixture(params=GAMES)
def game(request):
    return overtrick.make(request.param)


@pytest.fixture(params=SMALL)
def game_with_tree(request, game_and_tree):
    return game_and_tree(request.param)


@pytest.fixture(params=[name for name in SMALL if overtrick.make(name).seats == 2])
def two_seat_game(request, game_and_tree):
    return game_and_tree(request.param)


def random_pure_policy(tree, rng):
    """Return a random pure strategy as a policy, so that only the deal is random."""
    actions = sample_actions(tree.uniform(), rng).action
    return TabularPolicy(np.eye(tree.legal.shape[1])[actions])


class Always:
    """Policy that takes the first legal action of its wishes, and notes its number of actions so
    far."""

    def __init__(self, *wishes):
        self.wishes = np.array(wishes)

    def start(self, games, rng):
        return AlwaysSeated(self.wishes)


class AlwaysSeated:
    def __init__(self, wishes):
        self.wishes = wishes
        self.times = 0

    def act(self, observations):
        action = self.wishes[observations.legal[:, self.wishes].argmax(axis=1)]
        self.times += 1
        return Actions(
            action, np.zeros(len(observations)), {"times": np.full(len(observations), self.times)}
        )


@dataclass
class TollState:
    """Games of Toll in progress."""

    moves: np.ndarray  # (G,) number of choices so far


class Toll:
    """Game in which seats 0, 1, 0 choose a number in turn, and the other seat pays it at once."""

    name, seats, unit, actions, infosets = "toll", 2, "point", 3, None
    action_names = ("nothing", "one", "two")
    observation_fields = ("moves",)

    def deal(self, games, rng):
        return np.zeros((games, 0), np.int64)

    def start(self, deals):
        return TollState(np.zeros(len(deals), np.int64))

    def observe(self, state):
        game = np.flatnonzero(state.moves < 3)
        moves = state.moves[game]
        return Observations(game, moves % 2, moves[:, None], np.ones((len(game), 3), bool), None)

    def step(self, state, observations, action):
        gain = np.zeros((len(state.moves), 2))
        gain[observations.game, observations.seat] = action
        gain[observations.game, 1 - observations.seat] = -action
        state.moves[observations.game] += 1
        return gain


def test_a_reward_is_the_gain_between_a_decision_and_the_next(rng):
    played = play(Toll(), [Always(2), Always(1)], 2, rng)
    assert played.payoff.tolist() == [[3, -3]] * 2
    # seat 0: 2 of its own less 1 of the other's, then 2; seat 1's loss before its first decision
    # belongs to no decision of its own
    assert played.batch.seat.tolist() == [0, 0, 1] * 2
    assert played.batch.reward.tolist() == [1, 2, -1] * 2
    assert played.batch.last.tolist() == [False, True, True] * 2
    assert played.batch.infoset is None


def test_decisions_are_ordered_by_game_and_seat_and_time(game_with_tree, rng):
    game, tree = game_with_tree
    batch = play(game, [UniformPolicy()] * game.seats, 300, rng).batch
    owner = batch.game * game.seats + batch.seat
    assert (np.diff(owner) >= 0).all()
    later = owner[1:] == owner[:-1]
    stage = tree.stage[batch.infoset]
    assert (stage[1:][later] == stage[:-1][later] + 1).all()
    assert (stage[1:][~later] == 0).all()
    assert stage[0] == 0
    came_by = tree.parent_sequence[batch.infoset[1:]][later] - 1
    assert (tree.action_infoset[came_by] == batch.infoset[:-1][later]).all()
    assert (np.nonzero(tree.legal)[1][came_by] == batch.action[:-1][later]).all()


def test_last_marks_the_final_decision_of_each_seat_of_each_game(game, sample_deals, rng):
    batch = play(game, [UniformPolicy()] * game.seats, sample_deals(game, 300, rng), rng).batch
    owner = batch.game * game.seats + batch.seat
    _, finals = np.unique(owner[::-1], return_index=True)
    assert np.array_equal(np.flatnonzero(batch.last), np.sort(len(owner) - 1 - finals))


def test_the_rewards_of_a_seat_sum_to_its_payoff(game, sample_deals, rng):
    played = play(game, [UniformPolicy()] * game.seats, sample_deals(game, 300, rng), rng)
    batch = played.batch
    owner = batch.game * game.seats + batch.seat
    total = np.bincount(owner, batch.reward, minlength=played.payoff.size)
    acted = np.isin(np.arange(played.payoff.size), owner)
    assert np.allclose(total[acted], played.payoff.ravel()[acted], atol=1e-12, rtol=0)
    assert not batch.reward[~batch.last].any()  # these games pay at the end


def test_a_seat_that_never_acted_has_a_payoff_but_no_rows(game_and_tree, rng):
    game, _ = game_and_tree("leduc")
    played = play(game, [Always(FOLD), UniformPolicy()], 50, rng)
    # the small blind of half a big blind is lost at once
    assert (played.payoff == [-0.5, 0.5]).all()
    assert (played.batch.seat == 0).all()
    assert len(played.batch) == 50
    assert (played.batch.reward == -0.5).all()


def test_actions_are_legal_and_logp_is_theirs(game_with_tree, rng):
    game, tree = game_with_tree
    sigma = np.stack([rng.dirichlet(np.ones(tree.legal.shape[1])) for _ in range(tree.infosets)])
    sigma = np.where(tree.legal, sigma, 0)
    sigma /= sigma.sum(axis=1, keepdims=True)
    batch = play(
        game, [TabularPolicy(sigma), *[UniformPolicy()] * (game.seats - 1)], 300, rng
    ).batch
    rows = np.arange(len(batch))
    assert batch.legal[rows, batch.action].all()
    zero = batch.seat == 0
    chosen = sigma[batch.infoset, batch.action]
    assert np.array_equal(batch.logp[zero], np.log(chosen[zero]))
    even = 1 / batch.legal.sum(axis=1)
    assert np.array_equal(batch.logp[~zero], np.log(even[~zero]))


def test_seats_that_act_simultaneously_are_rows_of_one_turn(game_and_tree, rng):
    game, _ = game_and_tree("brps")
    played = play(game, [Always(0), Always(1)], 3, rng)
    assert played.batch.game.tolist() == [0, 0, 1, 1, 2, 2]
    assert played.batch.seat.tolist() == [0, 1] * 3
    assert played.batch.last.all()
    assert played.payoff.tolist() == [[-25, 25]] * 3  # paper beats rock
    assert played.batch.reward.tolist() == [-25, 25] * 3


def test_extras_of_an_action_stay_with_its_decision(game_and_tree, rng):
    game, _ = game_and_tree("leduc")
    played = play(game, [Always(RAISE, CALL), Always(CALL, CHECK)], 4, rng)
    # seat 1's call ends round one, so seat 0 begins round two as well
    assert played.batch.extras["times"].tolist() == [1, 2, 1, 2] * 4
    assert played.batch.action.tolist() == [RAISE, RAISE, CALL, CALL] * 4


def test_the_same_seed_plays_the_same_games(two_seat_game):
    game, tree = two_seat_game
    policies = [UniformPolicy(), TabularPolicy(tree.uniform())]
    seating = random_seating(100, np.random.default_rng(2))
    one, two = (play(game, policies, 100, np.random.default_rng(1), seating) for _ in range(2))
    other = play(game, policies, 100, np.random.default_rng(2), seating)
    assert np.array_equal(one.payoff, two.payoff)
    assert np.array_equal(one.batch.action, two.batch.action)
    assert not np.array_equal(one.payoff, other.payoff)


def test_deals_can_be_given(game_with_tree, rng):
    game, tree = game_with_tree
    deals, probability = game.every_deal()
    policies = [random_pure_policy(tree, rng) for _ in range(game.seats)]
    payoff = play(game, policies, deals, rng).payoff
    exact = best_response.expected(tree, best_response.sigma_of(tree, policies))
    assert np.allclose(probability @ payoff, exact, atol=1e-12, rtol=0)


def test_exchanged_seats_exchange_the_policies(two_seat_game, rng):
    game, tree = two_seat_game
    a, b = random_pure_policy(tree, rng), random_pure_policy(tree, rng)
    deals = game.deal(200, rng)
    first = rng.integers(2, size=200)
    mixed = play(game, [a, b], deals, rng, seating=np.stack([first, 1 - first], axis=1))
    straight = play(game, [a, b], deals, rng)
    exchanged = play(game, [b, a], deals, rng)
    wanted = np.where(first[:, None] == 0, straight.payoff, exchanged.payoff)
    assert np.array_equal(mixed.payoff, wanted)
    for g in (0, 1, 199):
        expected = straight if first[g] == 0 else exchanged
        ours, theirs = mixed.batch.game == g, expected.batch.game == g
        assert np.array_equal(mixed.batch.action[ours], expected.batch.action[theirs])
        assert np.array_equal(mixed.batch.seat[ours], expected.batch.seat[theirs])


def test_only_recorded_policies_have_decisions(two_seat_game):
    game, _ = two_seat_game
    seating = random_seating(100, np.random.default_rng(4))
    policies = [UniformPolicy(), UniformPolicy()]

    def run(recorded):
        return play(game, policies, 100, np.random.default_rng(3), seating, recorded)

    both, one, none = run(None), run([1]), run(())
    of_policy_1 = seating[both.batch.game, both.batch.seat] == 1
    for name in (
        "game",
        "seat",
        "observation",
        "legal",
        "infoset",
        "action",
        "logp",
        "reward",
        "last",
    ):
        whole_field = getattr(both.batch, name)
        assert np.array_equal(getattr(one.batch, name), whole_field[of_policy_1]), name
        nothing = getattr(none.batch, name)
        assert len(nothing) == 0
        assert nothing.shape[1:] == whole_field.shape[1:], name
    assert len(none.batch) == 0
    assert np.array_equal(both.payoff, one.payoff)
    assert np.array_equal(both.payoff, none.payoff)


def test_the_draws_of_one_policy_never_change_those_of_another(game_and_tree):
    game, tree = game_and_tree("leduc")
    others = [UniformPolicy(), TabularPolicy(tree.uniform()), Always(FOLD), Always(RAISE, CALL)]
    opened = []
    for other in others:
        batch = play(
            game, [UniformPolicy(), other], 200, np.random.default_rng(8), recorded=[0]
        ).batch
        opening = (batch.seat == 0) & (tree.stage[batch.infoset] == 0)
        opened.append((batch.observation[opening].tolist(), batch.action[opening].tolist()))
    # the same cards and the same first actions against any opponent
    assert all(one == opened[0] for one in opened)
    assert len(set(opened[0][1])) == 3


def test_policies_that_act_simultaneously_draw_from_their_own_generators(game_and_tree):
    game, _ = game_and_tree("brps")
    answers = []
    for first in (UniformPolicy(), Always(0)):  # one draws, the other does not
        batch = play(
            game, [first, UniformPolicy()], 100, np.random.default_rng(8), recorded=[1]
        ).batch
        answers.append(batch.action.tolist())
    assert answers[0] == answers[1]


def test_every_seat_needs_a_policy(game_and_tree, rng):
    game, _ = game_and_tree("kuhn_three")
    with pytest.raises(ValueError, match="3 seats, for 2 policies"):
        play(game, [UniformPolicy(), UniformPolicy()], 5, rng)


def test_an_illegal_action_stops_play(game_and_tree, rng):
    game, _ = game_and_tree("leduc")

    class Cheat(Always):
        def start(self, games, rng):
            return SimpleNamespace(
                act=lambda observations: Actions(
                    np.full(len(observations), CHECK), np.zeros(len(observations))
                )
            )

    with pytest.raises(ValueError, match="illegal action 3"):  # the small blind cannot check
        play(game, [Cheat(), UniformPolicy()], 5, rng)


def test_duplicate_play_of_a_pure_policy_with_itself_is_even(two_seat_game, rng):
    game, tree = two_seat_game
    policy = random_pure_policy(tree, rng)
    won, mean = play_duplicate(game, policy, policy, 100, rng)
    assert won.shape == (100, 2)
    assert np.array_equal(won[:, 0], -won[:, 1])
    assert not mean.any()


def test_duplicate_play_is_fair_to_equal_policies(two_seat_game, rng):
    game, _ = two_seat_game
    _, mean = play_duplicate(game, UniformPolicy(), UniformPolicy(), 4000, rng)
    assert abs(mean.mean()) < 5 * mean.std(ddof=1) / np.sqrt(len(mean))


def test_duplicate_play_gives_the_opponent_the_opposite(two_seat_game, rng):
    game, tree = two_seat_game
    a, b = random_pure_policy(tree, rng), random_pure_policy(tree, rng)
    won, mean = play_duplicate(game, a, b, 100, np.random.default_rng(6))
    lost, minus = play_duplicate(game, b, a, 100, np.random.default_rng(6))
    # a's gain in one seat is b's loss in the other
    assert np.array_equal(won, -lost[:, ::-1])
    assert np.array_equal(mean, -minus)


def test_duplicate_play_removes_the_variance_of_the_deal(game_and_tree, rng):
    game, tree = game_and_tree("one_card")
    timid = np.where(tree.legal[:, [1]], [1.0, 0.0], 0.0)  # always pass
    assert timid.shape == tree.legal.shape
    _, mean = play_duplicate(game, TabularPolicy(timid), TabularPolicy(timid), 200, rng)
    timid_payoff = play(game, [TabularPolicy(timid)] * 2, 200, rng).payoff[:, 0]
    assert not mean.any()
    assert timid_payoff.std() > 0.9  # the higher card wins an ante


def test_duplicate_play_of_three_has_each_seat_once(game_and_tree, rng):
    game, tree = game_and_tree("kuhn_three")
    a, b = random_pure_policy(tree, rng), random_pure_policy(tree, rng)
    won, mean = play_duplicate(game, a, a, 100, rng)  # a deal is one game, seen from each seat
    assert won.shape == (100, 3)
    assert won.any()
    assert not won.sum(axis=1).any()
    _, mean = play_duplicate(game, a, b, 4000, rng)
    exact = exact_payoff(tree, a.sigma, b.sigma)
    assert abs(mean.mean() - exact) < 5 * mean.std(ddof=1) / np.sqrt(len(mean))


def test_random_seating_gives_each_policy_seat_0_in_half_of_the_games(rng, chi_square_p):
    seating = random_seating(10_000, rng)
    assert (np.sort(seating, axis=1) == [0, 1]).all()
    assert chi_square_p(np.bincount(seating[:, 0]), np.array([0.5, 0.5])) > 1e-4


def test_the_decisions_of_one_policy_equal_a_recording_of_it_alone(two_seat_game):
    game, tree = two_seat_game
    both = (UniformPolicy(), TabularPolicy(tree.uniform()))
    seating = random_seating(40, np.random.default_rng(0))

    def batch(recorded_policies):
        return play(
            game, both, 40, np.random.default_rng(1), seating, recorded=recorded_policies
        ).batch

    for policy in range(2):
        found, timid_payoff = select_policy_decisions(batch(None), seating, policy), batch([policy])
        assert found.games == timid_payoff.games
        assert len(timid_payoff) >= 20
        for name in (
            "game",
            "seat",
            "observation",
            "legal",
            "infoset",
            "action",
            "logp",
            "reward",
            "last",
        ):
            assert np.array_equal(getattr(found, name), getattr(timid_payoff, name)), name


def test_concatenated_batches_number_their_games_consecutively(game_and_tree, rng):
    game, _ = game_and_tree("kuhn")
    batches = [play(game, [UniformPolicy()] * 2, count, rng).batch for count in (3, 1, 4)]
    whole = concatenate_trajectories(batches)
    assert whole.games == 8
    starts = np.repeat([0, 3, 4], [len(batch) for batch in batches])
    assert np.array_equal(whole.game - starts, np.concatenate([batch.game for batch in batches]))
    assert np.array_equal(whole.action, np.concatenate([batch.action for batch in batches]))
    assert sorted(set(whole.game.tolist())) == list(range(8))


def test_play_goes_on_from_a_state_of_given_deals_only(rng):
    """The rest of a game pays what the whole game pays, if the play before it paid nothing."""
    game = Auction(seats=2)
    deals = game.deal(20, rng)
    deals[:, DD_TABLE:] = rng.integers(14, size=(20, 20))
    bidder = SystemBidder(load("natural"), load("natural"))
    state = game.start(deals)
    first = game.observe(state)
    game.step(state, first, bidder.probs(first).argmax(axis=1))
    rest = play(game, (bidder, bidder), deals, rng, state=state)
    whole = play(game, (bidder, bidder), deals, rng)
    assert np.array_equal(rest.payoff, whole.payoff)
    assert rest.decision_count == whole.decision_count - len(deals)
    with pytest.raises(ValueError, match="a state needs the deals"):
        play(game, (bidder, bidder), 20, rng, state=game.start(deals))
