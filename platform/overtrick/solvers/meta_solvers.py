"""Meta-solvers of policy-space response oracles: mixtures over the policies of a population.

The meta-game is a normal-form game whose pure strategies are the policies of each seat. Its payoffs
are one tensor (S, K0, K1, ...): entry [s, k0, k1, ...] is the points of seat s if seat t plays its
policy kt. A meta-solver returns one mixture for each seat, the probabilities (Kt,) of its policies.

Source: Lanctot et al. 2017, "A unified game-theoretic approach to multiagent reinforcement
learning"; Muller et al. 2020, "A generalized training approach for multiagent learning".

| here | the usual implementation |
|---|---|
| alpha-rank in the limit of infinite alpha | alpha is finite or infinite |
| replicator steps are divided by the range of the payoffs | steps depend on the unit of payoffs |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from overtrick.core import Array, RunError, UserError
from overtrick.core.lazy_modules import sparse

Mixtures = list[Array]
"""For each seat the probabilities (K,) of its policies."""

LP_TOLERANCE = 1e-10  # feasibility tolerance; the smallest that HiGHS accepts
REPLICATOR_STEP = 0.01  # of payoffs divided by their range
LEAST_SHARE = 1e-6
"""Least share in projected replicator dynamics, divided by the number of the seat's policies."""
ALPHA_RANK_NOISE = 1e-4
"""Probability of a move to a worse policy, relative to a move to a better one."""
NASH_REMEDY = (
    "nash needs a zero-sum game of two seats: set projected_replicator_dynamics, regret_matching, "
    "alpha_rank or uniform"
)
MOST_PROFILES = 5_000  # of alpha-rank: its linear system has this many unknowns


def uniform(payoffs: Array, steps: int) -> Mixtures:
    """Return the uniform mixture of each seat, as in fictitious play."""
    return [np.full(count, 1 / count) for count in payoffs.shape[1:]]


def nash(payoffs: Array, steps: int) -> Mixtures:
    """Return a Nash equilibrium of a two-seat zero-sum meta-game, by one linear program a seat.

    Raises UserError for another game, RunError if a linear program cannot be solved.
    """
    check_nash(payoffs)
    return [_maximin(payoffs[0]), _maximin(payoffs[1].T)]


def check_nash(payoffs: Array) -> None:
    """Raise UserError unless the meta-game has two seats and is zero-sum."""
    sums = np.abs(payoffs.sum(axis=0)).max(initial=0)
    if len(payoffs) != 2 or sums > 1e-9 * np.abs(payoffs).max(initial=1):
        raise UserError(NASH_REMEDY)


def _maximin(payoff: Array) -> Array:
    """Return the mixture (K,) of the rows whose smallest payoff over the columns is largest."""
    from scipy.optimize import linprog

    rows, columns = payoff.shape
    # the solver's tolerance is absolute, so the largest payoff becomes 1
    payoff = payoff / max(float(np.abs(payoff).max()), np.finfo(float).tiny)
    found = linprog(
        np.append(np.zeros(rows), -1),
        A_ub=np.hstack([-payoff.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0)[None],
        b_eq=[1],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
        options=dict.fromkeys(
            ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), LP_TOLERANCE
        ),
    )
    if not found.success:
        raise RunError(f"the linear program of the meta-game failed: {found.message}")
    mixture = np.maximum(found.x[:rows], 0)
    return mixture / mixture.sum()


def regret_matching(payoffs: Array, steps: int) -> Mixtures:
    """Return the mean mixtures of `steps` steps of regret matching (Hart and Mas-Colell 2000)."""
    return _averages(_regret_matching, payoffs, steps)


def projected_replicator_dynamics(payoffs: Array, steps: int) -> Mixtures:
    """Return the mean mixtures of projected replicator dynamics (Lanctot et al. 2017, section 3.1).

    A step moves each mixture along the replicator equation, then projects it on the mixtures in
    which no policy has less than a small share.
    """
    scale = float(np.ptp(payoffs)) or 1.0
    return _averages(_replicator, payoffs / scale, steps)


def _averages(kernel: Callable[..., Array], payoffs: Array, steps: int) -> Mixtures:
    """Run a compiled dynamic; cut its result into one mixture for each seat.

    `kernel`: function of the payoffs (S, P) of all P profiles, the numbers (S,) of policies, and
    the number of steps. It returns the sum of the mixtures of all steps, one seat after the other.
    """
    counts = np.array(payoffs.shape[1:])
    mean = kernel(payoffs.reshape(len(payoffs), -1), counts, steps)
    return [each / each.sum() for each in np.split(mean, np.cumsum(counts)[:-1])]


def alpha_rank(payoffs: Array, steps: int) -> Mixtures:
    """Return the marginals of the alpha-rank distribution in the limit of strong selection.

    The states of a Markov chain are the profiles of policies. A move changes the policy of one
    seat. Moves to a policy that is better for this seat are likely, others are rare. The
    distribution is the stationary one (Omidshafiei et al. 2019, "alpha-rank: multi-agent evaluation
    by evolution"; Rowland et al. 2019). Raises UserError above MOST_PROFILES profiles.
    """
    counts = payoffs.shape[1:]
    profiles = int(np.prod(counts))
    if profiles > MOST_PROFILES:
        raise UserError(
            f"the meta-solver alpha_rank takes at most {MOST_PROFILES:,} profiles of policies, and "
            f"these are {profiles:,}: stop earlier, or set another meta-solver"
        )
    if profiles == 1:
        return [np.ones(1) for _ in counts]
    numbers = np.arange(profiles).reshape(counts)
    rounding = 1e-12 * np.abs(payoffs).max(initial=1)
    sources, targets, rates = [], [], []
    for seat, count in enumerate(counts):
        # rows: the other seats' policies; columns: this seat's
        profile = np.moveaxis(numbers, seat, -1).reshape(-1, count)
        points = np.moveaxis(payoffs[seat], seat, -1).reshape(-1, count)
        gain = points[:, None, :] - points[:, :, None]  # (others, from, to)
        rate = np.where(gain > 0, 1 - ALPHA_RANK_NOISE, ALPHA_RANK_NOISE)
        rate = np.where(np.abs(gain) <= rounding, 0.5, rate)
        moves = ~np.eye(count, dtype=bool)
        sources.append(np.broadcast_to(profile[:, :, None], gain.shape)[:, moves].ravel())
        targets.append(np.broadcast_to(profile[:, None, :], gain.shape)[:, moves].ravel())
        rates.append(rate[:, moves].ravel())
    source, target, rate = (np.concatenate(each) for each in (sources, targets, rates))
    share = _stationary(source, target, rate, profiles).reshape(counts)
    axes = range(len(counts))
    return [share.sum(axis=tuple(a for a in axes if a != seat)) for seat in axes]


def _stationary(source: Array, target: Array, rate: Array, states: int) -> Array:
    """Return the stationary distribution (states,) of a Markov chain.

    `source`, `target`, `rate` (moves,): each move's states and its rate.
    """
    from scipy.sparse.linalg import spsolve

    leaving = np.bincount(source, rate, minlength=states)
    every = np.arange(states)
    # the balance of every state but the last, and the sum of all probabilities
    rows, columns = np.append(target, every), np.append(source, every)
    values = np.append(rate, -leaving)
    kept = rows < states - 1
    balance = sparse.csc_array(
        (
            np.append(values[kept], np.ones(states)),
            (np.append(rows[kept], np.full(states, states - 1)), np.append(columns[kept], every)),
        ),
        shape=(states, states),
    )
    share = np.maximum(spsolve(balance, np.append(np.zeros(states - 1), 1.0)), 0)
    return share / share.sum()


META_SOLVERS: dict[str, Callable[[Array, int], Mixtures]] = {
    "nash": nash,
    "uniform": uniform,
    "regret_matching": regret_matching,
    "projected_replicator_dynamics": projected_replicator_dynamics,
    "alpha_rank": alpha_rank,
}
"""Meta-solvers by name: functions of the payoffs (S, K0, K1, ...) and a number of steps.

Only regret matching and replicator dynamics take steps.
"""


@njit(cache=True)
def _policy_values(payoffs, counts, starts, mixtures, values):  # type: ignore[no-untyped-def]
    """Fill `values` with each policy's points against the mixtures of the other seats.

    - `payoffs` (S, P): points of each seat in all P profiles, the last seat's policy changes first
    - `counts`, `starts` (S,): policies of each seat, and index of its first one in flat arrays
    - `mixtures`, `values`: flat arrays over the policies of seat 0, of seat 1, ...
    """
    seats = len(counts)
    values[:] = 0
    chosen = np.zeros(seats, np.int64)
    for profile in range(payoffs.shape[1]):
        for seat in range(seats):
            likely = 1.0
            for other in range(seats):
                if other != seat:
                    likely *= mixtures[starts[other] + chosen[other]]
            values[starts[seat] + chosen[seat]] += likely * payoffs[seat, profile]
        for seat in range(seats - 1, -1, -1):
            chosen[seat] += 1
            if chosen[seat] < counts[seat]:
                break
            chosen[seat] = 0


@njit(cache=True)
def _regret_matching(payoffs, counts, steps):  # type: ignore[no-untyped-def]
    """Return the sum of the mixtures of all steps of regret matching; see _averages."""
    total = counts.sum()
    starts = np.cumsum(counts) - counts
    mixtures, values = np.empty(total), np.empty(total)
    regrets, mean = np.zeros(total), np.zeros(total)
    for _ in range(steps):
        for seat in range(len(counts)):
            first, last = starts[seat], starts[seat] + counts[seat]
            positive = np.maximum(regrets[first:last], 0.0)
            whole = positive.sum()
            if whole > 0:
                mixtures[first:last] = positive / whole
            else:
                mixtures[first:last] = 1.0 / counts[seat]
        mean += mixtures
        _policy_values(payoffs, counts, starts, mixtures, values)
        for seat in range(len(counts)):
            first, last = starts[seat], starts[seat] + counts[seat]
            here = (mixtures[first:last] * values[first:last]).sum()
            regrets[first:last] += values[first:last] - here
    return mean


@njit(cache=True)
def _replicator(payoffs, counts, steps):  # type: ignore[no-untyped-def]
    """Return the sum of the mixtures of all replicator steps; see _averages."""
    total = counts.sum()
    starts = np.cumsum(counts) - counts
    mixtures, values, mean = np.empty(total), np.empty(total), np.zeros(total)
    for seat in range(len(counts)):
        mixtures[starts[seat] : starts[seat] + counts[seat]] = 1.0 / counts[seat]
    for _ in range(steps):
        _policy_values(payoffs, counts, starts, mixtures, values)
        for seat in range(len(counts)):
            own = mixtures[starts[seat] : starts[seat] + counts[seat]]
            points = values[starts[seat] : starts[seat] + counts[seat]]
            here = (own * points).sum()
            own *= 1 + REPLICATOR_STEP * (points - here)
            _project(own, LEAST_SHARE / counts[seat])
        mean += mixtures
    return mean


@njit(cache=True)
def _project(mixture, least):  # type: ignore[no-untyped-def]
    """Project on the mixtures with shares of at least `least`, by Euclidean distance, in place."""
    free = 1 - least * len(mixture)
    shifted = mixture - least
    descending = np.sort(shifted)[::-1]
    running, shift = 0.0, 0.0
    for k in range(len(descending)):
        running += descending[k]
        if descending[k] - (running - free) / (k + 1) > 0:
            shift = (running - free) / (k + 1)
    mixture[:] = np.maximum(shifted - shift, 0.0) + least
