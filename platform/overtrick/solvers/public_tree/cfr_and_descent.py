"""Solvers of bucketed games: CFR+ and gradient descent on NashConv.

A bucketed game has public actions, and each seat privately holds one of K buckets of hands. In each
betting round chance draws new buckets. Both solvers need games in which chance draws each seat's
bucket independently of the other seat's. A strategy depends on a seat's current bucket only. This
loses nothing: given the current bucket, earlier buckets carry no information about the rest of the
game.

An abstract public state is a set of public nodes that share their information sets. By default each
public node is an abstract public state of its own, and CFR+ converges to an equilibrium. If an
abstract public state has several nodes (imperfect recall), convergence is not guaranteed.

Each of the N information sets is a pair of an abstract public state and a bucket. There are
therefore N / K abstract public states.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit

from overtrick.core import Array, UserError
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.public_tree import values
from overtrick.solvers.public_tree.values import IndexedGame

MIN_PROBABILITY = 1e-6  # floor of initial probabilities: at 0 the gradient is 0 too
RATE_HALF_LIFE = 200  # iterations until the learning rate has halved
SQUARE_DECAY = 0.99  # decay of the running mean square, for each step
EPSILON = 1e-10  # added to denominators


class BucketedCfrPlus(IterativeSolver):
    """CFR+ (Tammelin 2014) on a bucketed game, with alternating updates and linear averaging.

    A bucketed game has public actions and private buckets of hands. If information sets contain
    several public nodes (imperfect recall), regrets are summed over these nodes, as in Waugh et al.
    2009, "A practical use of imperfect recall". Raises UserError if chance draws the buckets of
    both seats jointly (`game.rules.joint`).
    """

    saved = ("iteration", "sigma", "regret", "total")

    def __init__(self, game: IndexedGame) -> None:
        _check_independent(game)
        self.game = game
        self.sigma = _table(game, game.uniform())  # (N / K, A, K) strategy of the next iteration
        self.regret = np.zeros_like(self.sigma)  # cumulative, never below 0
        self.total = np.zeros_like(self.sigma)  # sum of strategies, weighted by own reach and t

    def run(self, iterations: int) -> None:
        """Run more iterations; each iteration updates both seats once."""
        legal = _table(self.game, self.game.legal)
        mover = self.game.seat[:: self.game.buckets]
        _run(
            self.game.layout, legal, mover, self.sigma, self.regret, self.total,
            self.iteration, iterations,
        )  # fmt: skip
        self.iteration += iterations

    def average(self) -> Array:
        """Return the average strategy (N, A); uniform at information sets never reached."""
        total = _from_table(self.game, self.total)
        weight = total.sum(axis=1, keepdims=True)
        return np.where(weight > 0, total / np.where(weight > 0, weight, 1), self.game.uniform())


def nash_conv_subgradient(game: IndexedGame, sigma: Array) -> tuple[float, Array]:
    """Return NashConv of sigma (N, A) in points, and its subgradient (N, A) with respect to sigma.

    The subgradient is the derivative with both best responses held fixed. Each entry of sigma is a
    free variable: rows need not sum to 1. Raises UserError if sigma is not a strategy of the game,
    or if chance draws the buckets of both seats jointly (`game.rules.joint`).
    """
    _check_independent(game)
    # Danskin's theorem: the same derivative in the realisation plans is a subgradient
    best_values, reply = values.best_responses(game, sigma)
    table, layout = _table(game, sigma), game.layout
    pure = reply.reshape(-1, 1, game.buckets) == np.arange(table.shape[1])[:, None]
    replies = (
        layout._replace(row=values.public_node_index(game.rules)[layout.node]),
        pure.astype(np.float64),
    )
    table_gradient = np.zeros_like(table)
    for seat in range(2):
        others, own = _reach(*replies, 1 - seat), _reach(layout, table, seat)
        _add_action_values(layout, table, others, own, seat, table_gradient)
    return float(best_values.sum()), -_from_table(game, table_gradient)


class NashConvDescent(IterativeSolver):
    """Gradient descent on NashConv in a bucketed game, from a strategy `start` (N, A).

    `start` is the uniform strategy by default. The parameters are one weight for each legal action;
    squared weights are normalised to probabilities. Information sets that are rarely reached have
    tiny gradients, so each gradient is divided by the root of its running mean square (RMSprop,
    Tieleman and Hinton 2012). After t iterations the learning rate is its initial value / (1 + t /
    RATE_HALF_LIFE). Raises UserError if `start` is not a strategy of the game, or if chance draws
    the buckets of both seats jointly (`game.rules.joint`).
    """

    saved = ("iteration", "weight", "square", "best")

    def __init__(self, game: IndexedGame, rate: float = 0.05, start: Array | None = None) -> None:
        _check_independent(game)
        if not rate > 0:
            raise UserError(f"gradient descent needs a learning rate above 0, not {rate}")
        self.game = game
        self.rate = rate
        self.best = game.uniform() if start is None else start  # best strategy so far
        values.check_strategy(game, self.best)
        self.nash_conv = float(values.nash_conv(game, self.best))  # of `best`, in points
        self.weight = np.where(game.legal, np.sqrt(np.maximum(self.best, MIN_PROBABILITY)), 0)
        self.square = np.zeros_like(self.weight)

    def run(self, iterations: int) -> None:
        """Take `iterations` more gradient steps."""
        for _ in range(iterations):
            self._step()

    def _step(self) -> None:
        size = (self.weight**2).sum(axis=1, keepdims=True)
        sigma = self.weight**2 / size
        nash_conv, gradient = nash_conv_subgradient(self.game, sigma)
        if nash_conv < self.nash_conv:
            self.best, self.nash_conv = sigma, nash_conv
        gradient = gradient - (sigma * gradient).sum(axis=1, keepdims=True)
        gradient = 2 * self.weight / size * gradient
        self.iteration += 1
        self.square = SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * gradient**2
        mean = self.square / (1 - SQUARE_DECAY**self.iteration)
        rate = self.rate / (1 + self.iteration / RATE_HALF_LIFE)
        self.weight = self.weight - rate * gradient / (np.sqrt(mean) + EPSILON)

    def average(self) -> Array:
        """Return the strategy (N, A) with the lowest NashConv so far."""
        return self.best

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays that the method `state` returned."""
        super().load(state)
        self.nash_conv = float(values.nash_conv(self.game, self.best))


def _check_independent(game: IndexedGame) -> None:
    if game.rules.joint:
        raise UserError("CFR+ and gradient descent need independent buckets, not joint ones")


def _table(game: IndexedGame, sigma: Array) -> Array:
    """Convert a strategy (N, A) to an array (N / K, A, K): abstract public state, action, bucket.

    An abstract public state is a set of public nodes that share their information sets. Each of the
    N information sets is a pair of an abstract public state and one of K buckets.
    """
    return values.kernel_tables(game, sigma[None])[..., 0]


def _from_table(game: IndexedGame, table: Array) -> Array:
    """Convert an array (N / K, A, K) to a strategy (N, A).

    The axes of the array are abstract public state, action and bucket. An abstract public state is
    a set of public nodes that share their information sets. Each of the N information sets is a
    pair of an abstract public state and one of K buckets.
    """
    return table.transpose(0, 2, 1).reshape(game.legal.shape)


@njit(cache=True)
def _run(layout, legal, mover, sigma, regret, total, done, iterations):  # type: ignore[no-untyped-def]
    ones = np.ones((len(layout.node), layout.start.shape[1]))
    reach = [_reach(layout, sigma, 0), _reach(layout, sigma, 1)]
    for t in range(done + 1, done + iterations + 1):
        for who in range(2):
            gains = np.zeros_like(sigma)
            _add_action_values(layout, sigma, reach[1 - who], ones, who, gains)
            reach_sum = np.zeros((sigma.shape[0], sigma.shape[2]))
            for i in range(len(layout.node)):
                if layout.seat[i] == who:
                    for k in range(reach_sum.shape[1]):
                        reach_sum[layout.row[i], k] += reach[who][i, k]
            for row in np.flatnonzero(mover == who):
                _match_regrets(row, legal, reach_sum, t, gains, sigma, regret, total)
            reach[who] = _reach(layout, sigma, who)


@njit(cache=True)
def _match_regrets(row, legal, reach_sum, t, gains, sigma, regret, total):  # type: ignore[no-untyped-def]
    """Do one CFR+ update at one abstract public state, for all buckets of the acting seat.

    An abstract public state is a set of public nodes that share their information sets. The arrays
    (N / K, A, K) have the axes abstract public state, action and bucket. The update changes entry
    `row` of `total`, `regret` and `sigma` in place.

    - `row`: the abstract public state
    - `legal` (N / K, A, K): mask of legal actions
    - `gains` (N / K, A, K): counterfactual values of the actions
    - `sigma` (N / K, A, K): current strategy; replaced by the next strategy
    - `regret` (N / K, A, K): cumulative regrets, never below 0
    - `total` (N / K, A, K): cumulative strategy, weighted by own reach probability and `t`
    - `reach_sum` (N / K, K): the acting seat's own reach probability, by bucket, summed over the
      nodes of each abstract public state
    - `t`: number of the iteration, from 1
    """
    _, actions, buckets = sigma.shape
    for k in range(buckets):
        mean, positive, choices = 0.0, 0.0, 0.0
        for a in range(actions):
            total[row, a, k] += t * reach_sum[row, k] * sigma[row, a, k]
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
def _reach(layout, sigma, who):  # type: ignore[no-untyped-def]
    """Return (B, K) the probability that chance and seat `who` lead to each public node and bucket.

    The B public nodes are in the order of `layout`, and the K buckets are those of seat `who`.
    `sigma` (N / K, A, K) is the strategy by abstract public state, action and bucket. An abstract
    public state is a set of public nodes that share their information sets.
    """
    buckets = layout.start.shape[1]
    reach = np.empty((len(layout.node), buckets))
    reach[0] = layout.start[who]
    before = np.empty(buckets)
    for i in range(1, len(layout.node)):
        above = layout.parent[i]
        chosen, row, action = layout.seat[above] == who, layout.row[above], layout.edge[i]
        for k in range(buckets):
            p = sigma[row, action, k] if chosen else 1.0
            before[k] = p * reach[above, k]
            reach[i, k] = before[k]
        if layout.move[i] >= 0:
            for k in range(buckets):
                p = 0.0
                for j in range(buckets):
                    p += before[j] * layout.moves[layout.move[i], j, k]
                reach[i, k] = p
    return reach


@njit(cache=True)
def _add_action_values(layout, sigma, others, weight, who, gains):  # type: ignore[no-untyped-def]
    """Add weighted counterfactual values of the actions of seat `who` to `gains` (N / K, A, K).

    Values are summed over the public nodes of each abstract public state. An abstract public state
    is a set of public nodes that share their information sets.

    - `layout`: Layout of the game, with B public nodes and K buckets of each seat
    - `sigma` (N / K, A, K): strategy by abstract public state, action and bucket
    - `others` (B, K): reach probability of each public node by chance and the other seat, for each
      bucket of the other seat
    - `weight` (B, K): factor of the values at each public node, for each own bucket. It is 1 for
      CFR and the own reach probability for a gradient.
    - `gains` (N / K, A, K): sums by abstract public state, action and own bucket
    """
    buckets = layout.start.shape[1]
    value = np.zeros((len(layout.node), buckets))
    here = np.empty(buckets)
    for i in range(len(layout.node) - 1, 0, -1):
        above, move, action = layout.parent[i], layout.move[i], layout.edge[i]
        if layout.seat[i] < 0:
            _terminal_value(layout, i, others, who, value)
        for k in range(buckets):
            here[k] = value[i, k]
            if move >= 0:
                here[k] = 0
                for j in range(buckets):
                    here[k] += layout.moves[move, k, j] * value[i, j]
        if layout.seat[above] == who:
            row = layout.row[above]
            for k in range(buckets):
                gains[row, action, k] += weight[above, k] * here[k]
                value[above, k] += sigma[row, action, k] * here[k]
        else:
            for k in range(buckets):
                value[above, k] += here[k]


@njit(cache=True)
def _terminal_value(layout, i, others, who, value):  # type: ignore[no-untyped-def]
    """Set `value[i]` (K,) to the counterfactual value of each own bucket at terminal node i.

    This value is the payoff of seat `who`, summed over the other seat's buckets with their reach
    probabilities as weights.

    - `layout`: Layout of the game, with B public nodes and K buckets of each seat
    - `others` (B, K): reach probability of each public node by chance and the other seat, for each
      bucket of the other seat
    - `value` (B, K): counterfactual values by public node and own bucket
    """
    buckets, stake = layout.start.shape[1], layout.stake[i]
    fixed = 0.0
    for j in range(buckets):
        fixed += others[i, j]
    fixed *= layout.gain[i] if who == 0 else -layout.gain[i]
    for k in range(buckets):
        won = 0.0
        if stake != 0:
            for j in range(buckets):
                won += layout.pay[who, k, j] * others[i, j]
        value[i, k] = fixed + stake * won
