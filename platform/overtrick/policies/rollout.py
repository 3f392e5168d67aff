"""Rollout loop: play games with given policies and collect trajectories and payoffs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Array,
    Deals,
    Game,
    Observations,
    Policy,
    PrivilegedFeatures,
    Rollout,
    Trajectories,
    count_diverged_games,
    outcomes,
    ray_metrics,
    select_rows,
)

PRIVILEGED = "hindsight"
"""Key of the privileged features in Trajectories.extras.

They are (D, F), for a privileged critic that sees all cards.
"""
STEP = "step"
"""Key of the step numbers of decisions in Trajectories.extras: (D,), from 0 in each game."""


def play(
    game: Game,
    policies: Sequence[Policy],
    games: int | Deals,
    rng: Generator,
    seating: Array | None = None,
    recorded: Sequence[int] | None = None,
    privileged: bool = False,
    with_steps: bool = False,
    state: Any = None,
) -> Rollout:
    """Play games in parallel to their end, and record the decisions of some policies.

    Each policy has its own random generator, so that its draws do not depend on the other policies.
    Raises ValueError for an illegal action. Raises ValueError also if the numbers of policies and
    seats differ and `seating` is not given.

    - `games`: the number of games to deal, or their deals (G, C).
    - `seating` (G, S): index of the policy in each seat of each game. By default policy s plays
      seat s.
    - `recorded`: indices of the policies whose decisions are recorded; by default all.
    - `privileged`: also store features for a privileged critic in the trajectories' extras.
    - `with_steps`: also store the step number of each decision in the trajectories' extras.
      Simultaneous decisions have equal numbers.
    - `state`: a state of the deals `games` in which play begins, changed in place; by default their
      start. The payoffs are those from then on.
    """
    if state is not None and isinstance(games, int):
        raise ValueError("a state needs the deals of its games")
    if seating is None and len(policies) != game.seats:
        raise ValueError(f"{game.name} has {game.seats} seats, for {len(policies)} policies")
    deal_rng, *their_rngs = rng.spawn(1 + len(policies))
    deals = game.deal(games, deal_rng) if isinstance(games, int) else games
    state = game.start(deals) if state is None else state
    players = [p.start(len(deals), r) for p, r in zip(policies, their_rngs, strict=True)]
    if seating is None:
        seating = np.broadcast_to(np.arange(game.seats), (len(deals), game.seats))
    is_recorded = np.isin(
        np.arange(len(policies)), range(len(policies)) if recorded is None else recorded
    )
    payoff = np.zeros((len(deals), game.seats))
    moments: list[_Moment] = []
    step = decision_count = 0
    while len(observations := game.observe(state)):
        who = seating[observations.game, observations.seat]
        action = None
        for index, player in enumerate(players):
            rows = np.flatnonzero(who == index)
            if not len(rows):
                continue
            part = select_rows(observations, rows)
            choice = player.act(part)
            if action is None:
                action = np.empty(
                    (len(observations), *choice.action.shape[1:]), choice.action.dtype
                )
            action[rows] = choice.action
            if is_recorded[index]:
                before = payoff[part.game, part.seat]
                extras = choice.extras
                if with_steps:
                    extras = {**extras, STEP: np.full(len(part), step)}
                moments.append((part, choice.action, choice.logp, extras, before))
        assert action is not None
        payoff += game.step(state, observations, action)
        step += 1
        decision_count += len(observations)
    ray_metrics.count_games(len(deals))
    batch = _trajectories(game, moments, payoff, observations)
    if privileged:
        assert isinstance(game, PrivilegedFeatures), f"{game.name} has no privileged features"
        features = game.privileged_features(batch.observations(), deals[batch.game])
        batch = replace(batch, extras={**batch.extras, PRIVILEGED: features})
    outcome = outcomes(game, state, payoff)
    return Rollout(batch, payoff, outcome, count_diverged_games(state), decision_count)


def play_duplicate(
    game: Game, policy: Policy, opponent: Policy, deals: int, rng: Generator
) -> tuple[Array, Array]:
    """Play each deal S times, once with `policy` in each seat and `opponent` in all other seats.

    S is the game's number of seats, `deals` the number of deals. Returns the payoffs (deals, S) of
    `policy` in seats 0, 1, ..., and their mean (deals,).
    """
    deal_rng, play_rng = rng.spawn(2)
    dealt = game.deal(deals, deal_rng)
    # the games of a deal are adjacent, so that members of BatchedNetworks play complete deals
    own = np.tile(np.eye(game.seats, dtype=bool), (deals, 1))
    each = np.repeat(dealt, game.seats, axis=0)
    seating = np.where(own, 0, 1)
    payoff = play(game, (policy, opponent), each, play_rng, seating, recorded=()).payoff
    won = payoff[own].reshape(deals, game.seats)
    return won, won.mean(axis=1)


def random_seating(games: int, rng: Generator) -> Array:
    """Draw which of policies 0 and 1 takes each seat of G two-seat games; return (G, 2)."""
    first = rng.integers(2, size=games)
    return np.stack([first, 1 - first], axis=1)


def select_policy_decisions(batch: Trajectories, seating: Array, policy: int) -> Trajectories:
    """Return only the decisions of one policy in a batch of trajectories.

    `seating` (G, S) is the index of the policy in each seat of each game.
    """
    return select_rows(batch, np.flatnonzero(seating[batch.game, batch.seat] == policy))


_Moment = tuple[Observations, Array, Array, dict[str, Array], Array]
"""Decisions at one time: observations, action, logp, extras, and each seat's points before them."""


def _trajectories(
    game: Game, moments: list[_Moment], payoff: Array, like: Observations
) -> Trajectories:
    """Sort recorded decisions by game, seat and time, and compute their rewards.

    `moments`: the decisions in the order of play. `payoff` (G, S): final points. `like`:
    observations whose arrays have the right shapes and types, used if nothing was recorded.
    """
    made = np.zeros(payoff.size, np.int64)  # decisions so far of each owner, a (game, seat)
    places = []
    for observations, *_ in moments:  # an owner has at most one row at a time
        owner = observations.game * game.seats + observations.seat
        places.append((owner, made[owner]))
        made[owner] += 1
    start = np.cumsum(made) - made
    order = [start[owner] + earlier for owner, earlier in places]
    decisions = int(made.sum())

    def join(parts: Iterable[Array | None], like: Array) -> Array:
        out = np.empty((decisions, *like.shape[1:]), like.dtype)
        for place, part in zip(order, parts, strict=True):
            out[place] = part
        return out

    owner = np.repeat(np.arange(payoff.size), made)
    last = np.ones(decisions, bool)
    last[:-1] = owner[1:] != owner[:-1]
    before = join([m[4] for m in moments], np.zeros(0))
    after = np.zeros(decisions)
    after[:-1] = before[1:]
    after[last] = payoff.reshape(-1)[owner[last]]
    extras = [m[3] for m in moments]
    if any(each.keys() != extras[0].keys() for each in extras):
        raise ValueError("recorded policies have different extras: record each in its own call")
    return Trajectories(
        games=len(payoff),
        game=owner // game.seats,
        seat=owner % game.seats,
        observation=join([m[0].observation for m in moments], like.observation),
        legal=None if like.legal is None else join([m[0].legal for m in moments], like.legal),
        infoset=None
        if like.infoset is None
        else join([m[0].infoset for m in moments], like.infoset),
        action=join([m[1] for m in moments], moments[0][1] if moments else owner),
        logp=join([m[2] for m in moments], before),
        reward=after - before,
        last=last,
        extras={n: join([each[n] for each in extras], v) for n, v in extras[0].items()}
        if extras
        else {},
    )
