"""Results of all likely calls at the decisions of auctions, each auction played on to its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Policy, Trajectories, select_rows
from overtrick.games.bridge.auction.game import Auction
from overtrick.policies.rollout import play


def results_of_calls(
    game: Auction,
    policies: Sequence[Policy],
    deals: Deals,
    batch: Trajectories,
    compared: Array,
    rng: Generator,
) -> Array:
    """Return the payoffs (D, 38) of the caller's side after each compared call; NaN for others.

    The same deal is bid on after each call, so that the payoffs at a decision differ only by the
    calls. Rollouts from all actions of a sampled state are the "vine" of Schulman et al. 2015,
    section 5.2.

    - `policies`: of North-South and of East-West after the call.
    - `deals`: (G, 74) the deals of the auctions.
    - `batch`: the D decisions of the auctions.
    - `compared`: (D, 38) bool mask of legal calls. Decisions with only one compared call get NaN.
    """
    results = np.full(compared.shape, np.nan)
    row, call = np.nonzero(compared & (compared.sum(axis=1, keepdims=True) > 1))
    if len(row):
        own = deals[batch.game[row]]
        state = game.state_at(select_rows(batch.observations(), row), own)
        payoff = game.step(state, game.observe(state), call)
        payoff += play(game, policies, own, rng, recorded=(), state=state).payoff
        results[row, call] = payoff[np.arange(len(row)), batch.seat[row]]
    return results


def call_credit(results: Array, likely: Array) -> tuple[Array, Array]:
    """Return credits (D, 38) of calls for a policy gradient, and mean squared advantages (D,).

    The advantage of a call is its result minus the mean result of the compared calls; the credit is
    its probability times its advantage. Means are weighted by the probabilities. Credits and mean
    squared advantages are 0 at decisions without results.

    `results`: (D, 38), NaN for calls that are not compared. `likely`: (D, 38) probabilities.
    """
    compared = ~np.isnan(results)
    share = np.where(compared, likely, 0.0)
    share /= np.maximum(share.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    known = np.where(compared, results, 0.0)
    advantage = np.where(compared, known - (share * known).sum(axis=1, keepdims=True), 0.0)
    return share * advantage, (share * advantage**2).sum(axis=1)
