"""How near to an equilibrium strategies of one index come on Chains: CFR+ and gradient descent.

Both need independent buckets. Through an index that tells all public moves apart (view's default)
CFR+ converges to an equilibrium: its rows forget a seat's earlier buckets, but those tell nothing
of what is to come. Through a coarser one nothing is promised (imperfect recall).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit

from overtrick.core import Array, UserError
from overtrick.solvers.public_tree import values
from overtrick.solvers.public_tree.values import IndexedGame

LEAST = 1e-6  # a start's probabilities are raised to this: from 0 no slope leads away
HORIZON = 200  # iterations after which a descent's rate has halved
MEMORY = 0.99  # of the mean square of a slope, a step
TINY = 1e-10  # against division by 0


class BucketedCfrPlus:
    """CFR+ (Tammelin 2014), alternating, the t-th strategy with weight t in the average.

    Regrets of nodes that share a row are summed, so with imperfect recall it is the algorithm of
    Waugh et al. 2009, "A practical use of imperfect recall". Raises UserError if buckets move
    jointly.
    """

    def __init__(self, view: IndexedGame) -> None:
        _independent(view)
        self.view = view
        self.iteration = 0
        self.sigma = _table(view, view.uniform())  # (N / K, A, K) of the next iteration
        self.regret = np.zeros_like(self.sigma)  # cumulative, never below 0
        self.total = np.zeros_like(self.sigma)  # sum of strategies, by own reach and t

    def run(self, iterations: int) -> None:
        """Add iterations; each updates both seats once."""
        legal = _table(self.view, self.view.legal)
        mover = self.view.seat[:: self.view.buckets]
        _run(
            self.view.layout, legal, mover, self.sigma, self.regret, self.total,
            self.iteration, iterations,
        )  # fmt: skip
        self.iteration += iterations

    def average(self) -> Array:
        """(N, A) the average strategy; uniform where no iteration has come."""
        total = _rows(self.view, self.total)
        weight = total.sum(axis=1, keepdims=True)
        return np.where(weight > 0, total / np.where(weight > 0, weight, 1), self.view.uniform())

    def state(self) -> dict[str, Array]:
        """What the next iteration depends on."""
        iteration = np.array(self.iteration)
        return {
            "sigma": self.sigma,
            "regret": self.regret,
            "total": self.total,
            "iteration": iteration,
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.regret, self.total = state["regret"].copy(), state["total"].copy()
        self.sigma, self.iteration = state["sigma"].copy(), int(state["iteration"])


def nash_conv_subgradient(view: IndexedGame, sigma: Array) -> tuple[float, Array]:
    """NashConv of sigma (N, A) in points, and a subgradient (N, A) of it.

    It is the derivative with the best responses held fast (Danskin's theorem: a subgradient in
    each seat's realised plan), each entry taken as if it could change alone. Raises UserError if
    sigma is no strategy of this view, or if buckets move jointly.
    """
    _independent(view)
    worth, reply = values.best_responses(view, sigma)
    table, layout = _table(view, sigma), view.layout
    pure = reply.reshape(-1, 1, view.buckets) == np.arange(table.shape[1])[:, None]
    replies = (
        layout._replace(row=values.public_node_index(view.game)[layout.node]),
        pure.astype(np.float64),
    )
    down = np.zeros_like(table)
    for seat in range(2):
        others, own = _beliefs(*replies, 1 - seat), _beliefs(layout, table, seat)
        _gains(layout, table, others, own, seat, down)
    return float(worth.sum()), -_rows(view, down)


class NashConvDescent:
    """Gradient descent on NashConv from a strategy (N, A), uniform play by default.

    The parameters are a weight for each legal action, of which a row's squares are normalised to
    probabilities. Rows that are seldom reached have tiny slopes, so each slope is divided by the
    root of its mean square of late (RMSprop, Tieleman and Hinton 2012); after t iterations the
    rate is its first value / (1 + t / HORIZON). Raises UserError if start is no strategy of this
    view, or if buckets move jointly.
    """

    def __init__(self, view: IndexedGame, rate: float = 0.05, start: Array | None = None) -> None:
        _independent(view)
        if not rate > 0:
            raise UserError(f"a descent needs a rate above 0, not {rate}")
        self.view = view
        self.rate = rate
        self.iteration = 0
        self.best = view.uniform() if start is None else start  # the best strategy come by
        values.check_strategy(view, self.best)
        self.nash_conv = float(values.nash_conv(view, self.best[None])[0])  # its own, in points
        self.weight = np.where(view.legal, np.sqrt(np.maximum(self.best, LEAST)), 0)
        self.square = np.zeros_like(self.weight)

    def run(self, iterations: int) -> None:
        """Go down so many steps more."""
        for _ in range(iterations):
            self._step()

    def _step(self) -> None:
        size = (self.weight**2).sum(axis=1, keepdims=True)
        sigma = self.weight**2 / size
        gap, steep = nash_conv_subgradient(self.view, sigma)
        if gap < self.nash_conv:
            self.best, self.nash_conv = sigma, gap
        steep = 2 * self.weight / size * (steep - (sigma * steep).sum(axis=1, keepdims=True))
        self.iteration += 1
        self.square = MEMORY * self.square + (1 - MEMORY) * steep**2
        mean = self.square / (1 - MEMORY**self.iteration)
        rate = self.rate / (1 + self.iteration / HORIZON)
        self.weight = self.weight - rate * steep / (np.sqrt(mean) + TINY)

    def average(self) -> Array:
        """(N, A) the best strategy so far."""
        return self.best

    def state(self) -> dict[str, Array]:
        """What the next iteration depends on."""
        return {
            "weight": self.weight,
            "square": self.square,
            "best": self.best,
            "iteration": np.array(self.iteration),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.weight, self.square = state["weight"].copy(), state["square"].copy()
        self.best, self.iteration = state["best"].copy(), int(state["iteration"])
        self.nash_conv = float(values.nash_conv(self.view, self.best[None])[0])


def _independent(view: IndexedGame) -> None:
    if view.game.joint:
        raise UserError("CFR+ and gradient descent on Chains need independent buckets, not joint")


def _table(view: IndexedGame, sigma: Array) -> Array:
    """(N / K, A, K) a strategy (N, A) as kernels want it."""
    return values.kernel_tables(view, sigma[None])[..., 0]


def _rows(view: IndexedGame, table: Array) -> Array:
    """(N, A) the strategy of a kernel's table."""
    return table.transpose(0, 2, 1).reshape(view.legal.shape)


@njit(cache=True)
def _run(lay, legal, mover, sigma, regret, total, done, iterations):  # type: ignore[no-untyped-def]
    ones = np.ones((len(lay.node), lay.start.shape[1]))
    beliefs = [_beliefs(lay, sigma, 0), _beliefs(lay, sigma, 1)]
    for t in range(done + 1, done + iterations + 1):
        for who in range(2):
            gains = np.zeros_like(sigma)
            _gains(lay, sigma, beliefs[1 - who], ones, who, gains)
            come = np.zeros((sigma.shape[0], sigma.shape[2]))
            for i in range(len(lay.node)):
                if lay.seat[i] == who:
                    for k in range(come.shape[1]):
                        come[lay.row[i], k] += beliefs[who][i, k]
            for row in np.flatnonzero(mover == who):
                _match(row, legal, come, t, gains, sigma, regret, total)
            beliefs[who] = _beliefs(lay, sigma, who)


@njit(cache=True)
def _match(row, legal, come, t, gains, sigma, regret, total):  # type: ignore[no-untyped-def]
    """Count a row's strategy into the average, its regrets, and make the next strategy of them."""
    _, actions, buckets = sigma.shape
    for k in range(buckets):
        mean, positive, choices = 0.0, 0.0, 0.0
        for a in range(actions):
            total[row, a, k] += t * come[row, k] * sigma[row, a, k]
            mean += sigma[row, a, k] * gains[row, a, k]
        for a in range(actions):
            if legal[row, a, k]:
                regret[row, a, k] = max(regret[row, a, k] + gains[row, a, k] - mean, 0.0)
                positive += regret[row, a, k]
                choices += 1
        for a in range(actions):
            if positive > 0:
                sigma[row, a, k] = regret[row, a, k] / positive
            else:
                sigma[row, a, k] = legal[row, a, k] / choices


@njit(cache=True)
def _beliefs(lay, sigma, who):  # type: ignore[no-untyped-def]
    """(B, K) probability that chance and a seat's own choices let it hold each bucket there."""
    buckets = lay.start.shape[1]
    belief = np.empty((len(lay.node), buckets))
    belief[0] = lay.start[who]
    before = np.empty(buckets)
    for i in range(1, len(lay.node)):
        above = lay.parent[i]
        chosen, row, action = lay.seat[above] == who, lay.row[above], lay.edge[i]
        for k in range(buckets):
            p = sigma[row, action, k] if chosen else 1.0
            before[k] = p * belief[above, k]
            belief[i, k] = before[k]
        if lay.move[i] >= 0:
            for k in range(buckets):
                p = 0.0
                for j in range(buckets):
                    p += before[j] * lay.moves[lay.move[i], j, k]
                belief[i, k] = p
    return belief


@njit(cache=True)
def _gains(lay, sigma, others, weight, who, gains):  # type: ignore[no-untyped-def]
    """Add to gains (N / K, A, K) the counterfactual value of each of a seat's actions.

    others (B, K) are beliefs about the other seat's bucket; weight (B, K) scales each node.
    """
    buckets = lay.start.shape[1]
    value = np.zeros((len(lay.node), buckets))
    here = np.empty(buckets)
    for i in range(len(lay.node) - 1, 0, -1):
        above, move, action = lay.parent[i], lay.move[i], lay.edge[i]
        if lay.seat[i] < 0:
            _end(lay, i, others, who, value)
        for k in range(buckets):
            here[k] = value[i, k]
            if move >= 0:
                here[k] = 0
                for j in range(buckets):
                    here[k] += lay.moves[move, k, j] * value[i, j]
        if lay.seat[above] == who:
            row = lay.row[above]
            for k in range(buckets):
                gains[row, action, k] += weight[above, k] * here[k]
                value[above, k] += sigma[row, action, k] * here[k]
        else:
            for k in range(buckets):
                value[above, k] += here[k]


@njit(cache=True)
def _end(lay, i, others, who, value):  # type: ignore[no-untyped-def]
    """What a seat wins at an end by its bucket, against all that the other may hold."""
    buckets, stake = lay.start.shape[1], lay.stake[i]
    fixed = 0.0
    for j in range(buckets):
        fixed += others[i, j]
    fixed *= lay.gain[i] if who == 0 else -lay.gain[i]
    for k in range(buckets):
        won = 0.0
        if stake != 0:
            for j in range(buckets):
                won += lay.pay[who, k, j] * others[i, j]
        value[i, k] = fixed + stake * won
