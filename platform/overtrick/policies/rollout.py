"""The only loop that advances a game."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

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
    ray_metrics,
    select_rows,
)

PRIVILEGED = "hindsight"
"""Batch.extras: (D, F) what is known of each decision once all cards are on the table."""


def play(
    game: Game,
    policies: Sequence[Policy],
    games: int | Deals,
    rng: Generator,
    seating: Array | None = None,
    recorded: Sequence[int] | None = None,
    privileged: bool = False,
) -> Rollout:
    """Play whole games and keep the decisions of some of the policies.

    games: how many to deal, or the deals (G, C) themselves. seating (G, S): which policy sits
    in each seat of each game; by default policy s sits in seat s. watch: the policies whose
    decisions are kept, all by default. Every policy draws from a generator of its own, so that
    what one does never changes another's luck. With hindsight the decisions have a note of what
    their game, once over, says of them from its whole deal. Raises ValueError if an action is
    illegal, or if nobody is there to sit in a seat.
    """
    if seating is None and len(policies) != game.seats:
        raise ValueError(f"{game.name} has {game.seats} seats, for {len(policies)} policies")
    deal_rng, *their_rngs = rng.spawn(1 + len(policies))
    deals = game.deal(games, deal_rng) if isinstance(games, int) else games
    state = game.start(deals)
    players = [p.start(len(deals), r) for p, r in zip(policies, their_rngs, strict=True)]
    if seating is None:
        seating = np.broadcast_to(np.arange(game.seats), (len(deals), game.seats))
    is_recorded = np.isin(
        np.arange(len(policies)), range(len(policies)) if recorded is None else recorded
    )
    payoff = np.zeros((len(deals), game.seats))
    kept: list[_Moment] = []
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
                kept.append((part, choice.action, choice.logp, choice.extras, before))
        assert action is not None
        payoff += game.step(state, observations, action)
    ray_metrics.count_games(len(deals))
    batch = _batch(game, kept, payoff, observations)
    if privileged:
        assert isinstance(game, PrivilegedFeatures), f"{game.name} has no privileged features"
        told = game.privileged_features(batch.observations(), deals[batch.game])
        batch = replace(batch, extras={**batch.extras, PRIVILEGED: told})
    return Rollout(batch, payoff, count_diverged_games(state))


def play_duplicate(
    game: Game, policy: Policy, opponent: Policy, deals: int, rng: Generator
) -> tuple[Array, Array]:
    """Each deal played S times: `policy` has each seat once, `opponent` all others.

    Returns (deals, S): what `policy` won in seat 0, 1, ...; and (deals,) their mean.
    """
    deal_rng, play_rng = rng.spawn(2)
    dealt = game.deal(deals, deal_rng)
    # deal d is game S d and the next, so that a crowd's members keep their own deals
    own = np.tile(np.eye(game.seats, dtype=bool), (deals, 1))
    each = np.repeat(dealt, game.seats, axis=0)
    seating = np.where(own, 0, 1)
    payoff = play(game, (policy, opponent), each, play_rng, seating, recorded=()).payoff
    won = payoff[own].reshape(deals, game.seats)
    return won, won.mean(axis=1)


def random_seating(games: int, rng: Generator) -> Array:
    """(G, 2) the two policies of each game in random seats."""
    first = rng.integers(2, size=games)
    return np.stack([first, 1 - first], axis=1)


def select_policy_decisions(batch: Trajectories, seating: Array, policy: int) -> Trajectories:
    """What one policy decided, of a batch in which several were watched; seating as in `play`."""
    rows = np.flatnonzero(seating[batch.game, batch.seat] == policy)
    observations = select_rows(batch.observations(), rows)
    return Trajectories(
        games=batch.games,
        game=observations.game,
        seat=observations.seat,
        observation=observations.observation,
        legal=observations.legal,
        infoset=observations.infoset,
        action=batch.action[rows],
        logp=batch.logp[rows],
        reward=batch.reward[rows],
        last=batch.last[rows],
        extras={name: value[rows] for name, value in batch.extras.items()},
    )


_Moment = tuple[Observations, Array, Array, dict[str, Array], Array]
"""Rows of one turn: the rows, action, logp, note, and the points that each seat had before."""


def _batch(game: Game, kept: list[_Moment], payoff: Array, like: Observations) -> Trajectories:
    """Decisions in the order (game, seat, time), each with what it led to.

    like: a turn whose arrays have the right types, also where nothing was kept.
    """
    made = np.zeros(payoff.size, np.int64)  # decisions so far, by owner (game, seat)
    places = []
    for observations, *_ in kept:  # an owner has at most one row in a turn
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
    before = join([m[4] for m in kept], np.zeros(0))
    after = np.zeros(decisions)
    after[:-1] = before[1:]
    after[last] = payoff.reshape(-1)[owner[last]]
    notes = [m[3] for m in kept]
    if any(note.keys() != notes[0].keys() for note in notes):
        raise ValueError("watched policies note different things: watch them one at a time")
    return Trajectories(
        games=len(payoff),
        game=owner // game.seats,
        seat=owner % game.seats,
        observation=join([m[0].observation for m in kept], like.observation),
        legal=None if like.legal is None else join([m[0].legal for m in kept], like.legal),
        infoset=None if like.infoset is None else join([m[0].infoset for m in kept], like.infoset),
        action=join([m[1] for m in kept], kept[0][1] if kept else owner),
        logp=join([m[2] for m in kept], before),
        reward=after - before,
        last=last,
        extras={n: join([note[n] for note in notes], v) for n, v in notes[0].items()}
        if notes
        else {},
    )
