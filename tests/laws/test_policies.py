"""Laws of every policy: its probabilities are legal and are those of its actions."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.rounding import assert_float32_close

import overtrick
from overtrick.core import Enumerable, Observations, UserError, select_rows
from overtrick.games import registry
from overtrick.games.poker.holdem.hand_percentile import percentiles
from overtrick.games.poker.scripted_players import ThresholdPlayer
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.weights import stack
from overtrick.policies.action_sampling import sample_actions
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import (
    ACTIVATIONS,
    forward,
    forward_numpy,
    masked_log_softmax,
    pad,
    pad_slots,
    tensors,
)
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers import cfr

GAMES = [name for name in overtrick.names() if overtrick.make(name).actions is not None]
FLOAT32 = 1e-6  # tolerance of a network's probabilities
DRAWS = 4_000


def all_policies():
    """Return every policy that can play in every game of the registry."""
    for name in GAMES:
        game = overtrick.make(name)
        tables = ["tabular"] if isinstance(game, Enumerable) else []
        for kind in ("uniform", *tables, "network", *registry.scripted_players(game)):
            yield name, kind


@pytest.fixture(scope="module")
def decisions_of(game_and_tree, sample_deals):
    """Return a function from a game's name to the game and its decisions; of a large game, the
    decisions of a few games."""

    @functools.cache
    def of(name):
        game = overtrick.make(name)
        if isinstance(game, Enumerable):
            return game, game_and_tree(name)[1].observations
        rng = np.random.default_rng(13)
        batch = play(
            game, [UniformPolicy()] * game.seats, sample_deals(game, 1_500, rng), rng
        ).batch
        return game, batch.observations()

    return of


@pytest.fixture(scope="module", params=all_policies(), ids="-".join)
def policy_and_decisions(request, decisions_of, game_and_tree):
    """Return the kind of a policy, the policy, and decisions of its game."""
    name, kind = request.param
    game, observations = decisions_of(name)
    rng = np.random.default_rng(11)
    features = game.features(observations).shape[1]
    if kind == "uniform":
        policy = UniformPolicy()
    elif kind == "tabular":
        policy = TabularPolicy(cfr.solve(game_and_tree(name)[1], 20))
    elif kind == "network":
        policy = NetworkPolicy(game.features, initial_weights((features, 16, game.actions), rng))
    else:
        policy = registry.scripted_players(game)[kind](game)
    return kind, policy, observations


def some_rows(observations, count=10):
    """Select a few rows, evenly spread."""
    return select_rows(
        observations, np.unique(np.linspace(0, len(observations) - 1, count).astype(int))
    )


def random_networks(game, observations, count, rng, hidden=(16,)):
    """Return some random networks for a game."""
    sizes = (game.features(observations).shape[1], *hidden, game.actions)
    return [initial_weights(sizes, rng) for _ in range(count)]


def test_probabilities_sum_to_one_over_the_legal_actions(policy_and_decisions):
    kind, policy, observations = policy_and_decisions
    probs = policy.probs(observations)
    assert probs.shape == observations.legal.shape
    assert probs.dtype == np.float64
    assert (probs >= 0).all()
    assert (probs[~observations.legal] == 0).all()
    assert np.abs(probs.sum(axis=1) - 1).max() < (FLOAT32 if kind == "network" else 1e-12)


def test_probabilities_of_a_row_do_not_depend_on_other_rows(policy_and_decisions):
    _, policy, observations = policy_and_decisions
    rows = np.arange(len(observations))[::-3]
    one_by_one = policy.probs(select_rows(observations, rows))
    assert np.abs(one_by_one - policy.probs(observations)[rows]).max() < FLOAT32


def test_actions_have_the_frequencies_of_the_probabilities(policy_and_decisions, rng, chi_square_p):
    _, policy, observations = policy_and_decisions
    few = some_rows(observations)
    player = policy.start(DRAWS, rng)
    many = select_rows(few, np.repeat(np.arange(len(few)), DRAWS))
    actions = player.act(many).action.reshape(len(few), DRAWS)
    for row, probs in zip(actions, policy.probs(few), strict=True):
        assert chi_square_p(np.bincount(row, minlength=len(probs)), probs) > 1e-4


def test_logp_is_the_logarithm_of_the_probability_of_the_action(policy_and_decisions, rng):
    _, policy, observations = policy_and_decisions
    choice = policy.start(1, rng).act(observations)
    chosen = policy.probs(observations)[np.arange(len(observations)), choice.action]
    assert observations.legal[np.arange(len(observations)), choice.action].all()
    assert np.array_equal(choice.logp, np.log(chosen))


PLAYERS = {name: registry.scripted_players(overtrick.make(name)) for name in GAMES}
POKER = [name for name, players in PLAYERS.items() if "call" in players]
BLUFFED = [name for name in POKER if "bluff" in PLAYERS[name]]


def action_effects(game, observations):
    """Read the effect of each action in each row from the betting table: (R, A) each.

    facing (R, 1): another seat has more chips in the pot; free: it costs nothing and folds nothing;
    matches: it pays the missing chips; raises; folds. One action may be a check in one place and a
    fold in another ("pass" in Kuhn).
    """
    betting, node, seat = game.betting, observations.observation[:, -1], observations.seat
    after = betting.after[node]  # (N, A)
    own, own_after = betting.chips[node, seat][:, None], betting.chips[after, seat[:, None]]
    most = betting.chips[node].max(axis=1, keepdims=True)
    stays = betting.live[after, seat[:, None]]
    return {
        "facing": most > own,
        "free": observations.legal & stays & (own_after == own),
        "matches": observations.legal & stays & (own_after == most) & (most > own),
        "raises": observations.legal & (own_after > most),
        "folds": observations.legal & ~stays,
    }


@pytest.mark.parametrize("name", POKER)
def test_a_caller_calls_a_bet_and_otherwise_checks(decisions_of, name):
    game, observations = decisions_of(name)
    probs = registry.scripted_players(game)["call"](game).probs(observations)
    does = action_effects(game, observations)
    assert np.array_equal(probs, np.where(does["facing"], does["matches"], does["free"]))


@pytest.mark.parametrize("name", BLUFFED)
def test_a_bluffers_hand_determines_its_action(game_and_tree, name):
    """Without bluffs. Strong: raise, otherwise call. Medium: call or check. Weak: check or fold."""
    game, tree = game_and_tree(name)
    probs = registry.scripted_players(game)["bluff"](game, bluff=0.0).probs(tree.observations)
    does = action_effects(game, tree.observations)
    hole, board = (
        tree.observations.observation[:, 0, None],
        tree.observations.observation[:, 1, None],
    )
    can_raise = does["raises"].any(axis=1, keepdims=True)
    medium = np.where(does["facing"], does["matches"], does["free"])
    strong = np.where(can_raise, does["raises"], medium)
    weak = np.where(does["facing"], does["folds"], does["free"])
    is_strong = (hole == game.rules.ranks - 1) | (hole == board)
    wanted = np.where(is_strong, strong, np.where(hole == 0, weak, medium))
    assert np.array_equal(probs, wanted)


def test_a_bluffer_plays_the_lowest_hand_as_a_strong_one_one_time_in_five(game_and_tree):
    """Actions: call, raise, fold, check. Observation fields: hole, board, ..., the betting so
    far."""
    game, tree = game_and_tree("leduc")
    probs = registry.scripted_players(game)["bluff"](game).probs(tree.observations)
    probabilities = {
        game.describe(observed): p
        for observed, p in zip(tree.observations.observation, probs, strict=True)
    }
    assert np.allclose(
        probabilities["J after nothing"], [0, 0.2, 0.8, 0]
    )  # check is not legal: fold
    assert np.allclose(probabilities["Q after nothing"], [1, 0, 0, 0])
    assert np.allclose(probabilities["K after nothing"], [0, 1, 0, 0])
    assert np.allclose(probabilities["J after call"], [0, 0.2, 0, 0.8])
    assert np.allclose(probabilities["K after raise, raise"], [1, 0, 0, 0])  # at the cap
    assert np.allclose(probabilities["J after raise, raise"], [0.2, 0, 0.8, 0])
    assert np.allclose(
        probabilities["J on J after call, check"], [0, 1, 0, 0]
    )  # any pair is strong
    assert np.allclose(probabilities["J on K after call, check"], [0, 0.2, 0, 0.8])
    assert np.allclose(probabilities["Q on K after call, check, raise"], [1, 0, 0, 0])
    brave = registry.scripted_players(game)["bluff"](game, bluff=1.0).probs(tree.observations)
    row = list(probabilities).index("J after nothing")
    assert np.allclose(brave[row], [0, 1, 0, 0])


@pytest.mark.parametrize(
    ("kind", "plays", "raises", "bluff"),
    [("la", 0.8, 0.45, 0.0), ("ta", 0.4, 0.25, 0.1), ("lp", 0.8, 0.05, 0.0)],
)
def test_the_strength_of_a_holding_determines_a_scripted_players_action(
    decisions_of, kind, plays, raises, bluff
):
    """The strongest share raises, otherwise calls. The rest of the played share calls or checks.
    Other holdings give up."""
    game, observations = decisions_of("holdem")
    probs = registry.scripted_players(game)[kind](game).probs(observations)
    does = action_effects(game, observations)
    strength = percentiles(observations.observation[:, :2], observations.observation[:, 2:7])[
        :, None
    ]
    can_raise = does["raises"].any(axis=1, keepdims=True)
    medium = np.where(does["facing"], does["matches"], does["free"])
    strong = np.where(can_raise, does["raises"], medium)
    weak = np.where(does["facing"], does["folds"], does["free"])
    rest = bluff * strong + (1 - bluff) * weak
    played = np.where(strength >= 1 - plays, medium, rest)
    assert np.allclose(probs, np.where(strength >= 1 - raises, strong, played), atol=1e-15)
    assert set(observations.observation[:, -2]) == {0, 1, 2, 3}  # rounds
    # random players do not select their holdings
    for share in (plays, raises):
        within = (strength >= 1 - share).mean()
        assert abs(within - share) < 5 * np.sqrt(share * (1 - share) / (len(observations) / 3))


def test_thresholds_of_scripted_players_are_parameters(decisions_of):
    game, observations = decisions_of("holdem")
    caller = registry.scripted_players(game)["call"](game).probs(observations)
    assert np.array_equal(ThresholdPlayer(game, plays=1.0, raises=0.0).probs(observations), caller)
    raiser = ThresholdPlayer(game, plays=1.0, raises=1.0).probs(observations)
    assert np.array_equal(
        ThresholdPlayer(game, plays=0.0, raises=0.0, bluff=1.0).probs(observations), raiser
    )


def test_scripted_players_ignore_suits(game_and_tree):
    for kind in ("call", "bluff"):
        plays = []
        for fold in (True, False):
            game, tree = game_and_tree("leduc_textbook", fold=fold)
            probs = registry.scripted_players(game)[kind](game).probs(tree.observations)
            words = [
                re.sub(r"\d", "", game.describe(observed))
                for observed in tree.observations.observation
            ]
            plays.append({(w, tuple(p)) for w, p in zip(words, probs, strict=True)})
        assert plays[0] == plays[1]


class ConstantGenerator:
    """Generator that always draws the same number."""

    def __init__(self, number):
        self.number = number

    def random(self, size):
        return np.full(size, self.number)


tiny_to_large = st.sampled_from([0.0, 0.0, 1e-300, 1e-30, 1e-17, 1e-9, 0.1, 1 / 3, 1.0])
tables = st.integers(1, 6).flatmap(
    lambda actions: hnp.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.just(actions)), elements=tiny_to_large
    )
)
drawn_number = st.sampled_from([0.0, 5e-324, 1e-17, 0.5, 1 - 2**-53]) | st.floats(0, 1 - 2**-53)


@given(tables, drawn_number)
def test_draw_never_takes_an_action_of_probability_0(table, number):
    table[:, -1] += (table.sum(axis=1) == 0) * 1.0
    probs = table / table.sum(axis=1, keepdims=True)
    choice = sample_actions(probs, ConstantGenerator(number))
    taken = probs[np.arange(len(probs)), choice.action]
    assert (taken > 0).all()
    assert np.array_equal(choice.logp, np.log(taken))


def test_draw_takes_the_first_and_the_last_action_at_the_ends_of_the_interval():
    probs = np.array([[0.0, 0.5, 0.5, 0.0]])
    assert sample_actions(probs, ConstantGenerator(0.0)).action == 1
    assert sample_actions(probs, ConstantGenerator(1 - 2**-53)).action == 2
    assert len(sample_actions(np.zeros((0, 3)), ConstantGenerator(0.5)).action) == 0


def test_extreme_logits_still_give_probabilities(game_and_tree, rng):
    game, tree = game_and_tree("leduc")
    (weights,) = random_networks(game, tree.observations, 1, rng)
    sure = {name: value * 300 for name, value in weights.items()}
    policy = NetworkPolicy(game.features, sure)
    probs = policy.probs(tree.observations)
    assert (probs == 0).any(axis=1).all()
    assert np.abs(probs.sum(axis=1) - 1).max() < FLOAT32
    assert np.isfinite(policy.start(1, rng).act(tree.observations).logp).all()


def test_batched_networks_play_as_their_members_do_alone(game_and_tree, rng):
    game, tree = game_and_tree("leduc")
    each, count = 30, 5
    one_by_one = random_networks(game, tree.observations, count, rng)
    rows = rng.integers(tree.infosets, size=each * count)
    # finished games have no row, so members have different numbers of rows
    playing = np.flatnonzero(rng.random(each * count) < 0.6)
    observations = select_rows(tree.observations, rows[playing])
    observations = Observations(
        playing,
        observations.seat,
        observations.observation,
        observations.legal,
        observations.infoset,
    )
    choice = (
        BatchedNetworks(game.features, stack(one_by_one))
        .start(each * count, np.random.default_rng(5))
        .act(observations)
    )
    probs = np.empty(observations.legal.shape)
    for m, weights in enumerate(one_by_one):
        mine = playing // each == m
        probs[mine] = NetworkPolicy(game.features, weights).probs(select_rows(observations, mine))
    expected = sample_actions(probs, np.random.default_rng(5))
    assert np.array_equal(choice.action, expected.action)
    assert np.abs(np.exp(choice.logp) - np.exp(expected.logp)).max() < FLOAT32


def test_batched_networks_play_on_when_some_members_games_are_over(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    player = BatchedNetworks(
        game.features, stack(random_networks(game, tree.observations, 3, rng))
    ).start(6, rng)
    last = select_rows(tree.observations, np.array([0, 4]))
    choice = player.act(
        Observations(np.array([2, 3]), last.seat, last.observation, last.legal, last.infoset)
    )
    assert last.legal[[0, 1], choice.action].all()


def test_batched_networks_refuse_games_that_their_members_cannot_share(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    crowd = BatchedNetworks(game.features, stack(random_networks(game, tree.observations, 3, rng)))
    with pytest.raises(ValueError, match="7 games cannot be shared evenly by 3 members"):
        crowd.start(7, rng)


def test_stacked_weights_give_the_outputs_of_their_members(rng):
    one_by_one = [initial_weights((7, 12, 9, 4), rng) for _ in range(6)]
    x = torch.from_numpy(rng.normal(size=(6, 11, 7)).astype(np.float32))
    together = forward(tensors(stack(one_by_one)), x)
    assert together.shape == (6, 11, 4)
    for m, weights in enumerate(one_by_one):
        assert_float32_close(together[m], forward(tensors(weights), x[m]))
    # the same input for all members
    shared = forward(tensors(stack(one_by_one)), x[0])
    assert_float32_close(shared[3], forward(tensors(one_by_one[3]), x[0]))


def test_a_network_is_relu_layers_and_a_linear_head():
    weights = {
        "w0": np.array([[1.0, -1.0]], np.float32),
        "b0": np.array([0.5, 0.5], np.float32),
        "w1": np.array([[2.0], [3.0]], np.float32),
        "b1": np.array([-10.0], np.float32),
    }
    x = torch.tensor([[1.0], [-2.0]])
    # 1: relu(1.5, -0.5) = (1.5, 0) -> 3 - 10;  -2: relu(-1.5, 2.5) = (0, 2.5) -> 7.5 - 10
    assert forward(tensors(weights), x).ravel().tolist() == [-7.0, -2.5]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_and_torch_compute_the_same_outputs(activation, rng):
    weights = initial_weights((7, 12, 9, 4), rng)
    x = rng.normal(size=(5, 7)).astype(np.float32)
    expected = forward(tensors(weights), torch.from_numpy(x), activation)
    assert_float32_close(forward_numpy(weights, x, activation), expected)


def test_masked_actions_have_probability_0():
    logits = torch.tensor([[100.0, 0.0, -100.0], [1.0, 2.0, 3.0]])
    legal = torch.tensor([[False, True, True], [True, True, True]])
    probs = masked_log_softmax(logits, legal).exp()
    assert probs[0].tolist() == [0.0, 1.0, pytest.approx(0.0, abs=1e-30)]
    assert torch.allclose(probs[1], torch.softmax(logits[1], 0))


@given(st.integers(1, 5).flatmap(lambda m: st.tuples(st.just(m), st.lists(st.integers(0, m - 1)))))
def test_padding_keeps_every_row_in_its_members_order(drawn):
    count, owners = drawn
    member = np.array(owners, np.int64)
    slot = pad_slots(member, count)
    rows = np.arange(1.0, 1 + 2 * len(member)).reshape(-1, 2)
    padded = pad(rows, member, slot, count)
    assert np.array_equal(padded[member, slot], rows)
    assert np.count_nonzero(padded) == rows.size  # the rest is zeros
    for m in range(count):
        assert slot[member == m].tolist() == list(range((member == m).sum()))
    longest = max((owners.count(m) for m in range(count)), default=0)
    assert padded.shape == (count, longest, 2)


@pytest.mark.parametrize("shape", [(3, 2), (12, 3)], ids=["few information sets", "more actions"])
def test_a_strategy_of_another_game_is_refused(game_and_tree, shape):
    _, tree = game_and_tree("kuhn")
    with pytest.raises(UserError, match=r"the strategy is for another game: its shape is \("):
        TabularPolicy(np.full(shape, 1 / shape[1])).probs(tree.observations)
