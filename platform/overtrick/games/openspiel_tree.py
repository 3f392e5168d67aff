"""Game trees of OpenSpiel's games for the exact solvers, and OpenSpiel policies from strategies.

Lanctot et al. 2019, "OpenSpiel: A framework for reinforcement learning in games". Simultaneous
moves are converted to moves in turn, hidden from the seats that move later, as OpenSpiel does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import END, Array, Observations, TreeNodes, UserError, suggestion

FEW, DESCENTS = 8, 400  # number of random descents: a few reveal a huge tree, otherwise many
LONGEST, HUGE = 1_000, 1e100  # moves and nodes at which a descent is cut off
PATIENCE = 8  # seconds of the child process that reads a game first
RANDOM_PLAY = Path(__file__).with_name("openspiel_random_play.py")  # the program of that process


class OpenSpiel:
    """Game tree of an OpenSpiel game, given by its OpenSpiel name: `leduc_poker(players=3)`.

    Actions have OpenSpiel's numbers. Chance outcomes of positive probability are numbered from 0 in
    OpenSpiel's order. All points are gained on the edges into terminal nodes. Raises UserError for
    an unknown game, and for a game that has no finite tree or no information sets.

    Some parameters, such as a damaged game file, kill the process that reads them. A game with
    parameters is therefore first tried in a child process. `safe`: skip this, because another
    process has done it.
    """

    def __init__(self, name: str, safe: bool = False) -> None:
        if not safe:
            _check_no_crash(name)
        self._openspiel_name = name
        self._game = _load(name)
        self.name = f"openspiel/{name}"
        self.seats: int = self._game.num_players()
        self.unit = "point"
        self.actions: int = self._game.num_distinct_actions()
        self.action_names = _action_names(self._game)
        self.information_state_strings: tuple[str, ...] = ()  # (N,); `nodes` fills them in
        self.infosets: int | None = None  # N; `nodes` counts them

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenSpiel, (self._openspiel_name, True)

    def nodes(self, fits: Callable[[float, int], bool]) -> TreeNodes:
        """Build the complete tree; information sets are numbered in depth-first order.

        `fits(V, N)` returns whether V nodes and N information sets fit in memory. Raises UserError
        if they do not fit. A few random descents detect a huge tree at once; otherwise construction
        stops as soon as there are too many nodes.
        """
        root = self._game.new_initial_state()
        with _one_line(self.name):
            size = _size_lower_bound(root, fits)
        if not fits(size, 0):
            raise UserError(
                f"{self.name} has some {size:.0e} nodes or more: they do not fit in memory"
            )
        rows, chance, returns = array("i"), array("d"), array("d")
        sets: dict[tuple[int, str], int] = {}
        perfect = _has_perfect_information(self._game.get_type())
        known = methodcaller("history_str" if perfect else "information_state_string")
        todo: list[tuple[Any, int, int, int, int, float]] = [(None, 0, -1, 0, 0, 1.0)]
        while todo:
            above, move, parent, depth, edge, probability = todo.pop()
            state = root if above is None else above.child(move)
            node, seat, edges, number = len(chance), state.current_player(), _edges(state), -1
            if seat >= 0:
                number = sets.setdefault((seat, known(state)), len(sets))
            if not edges:
                seat = END
                returns.extend(state.returns())
            rows.extend((parent, edge, depth, seat, number))
            chance.append(probability)
            todo += [(state, move, node, depth + 1, edge, p) for move, edge, p in reversed(edges)]
            if not fits(found := len(chance) + len(todo), len(sets)):
                raise UserError(
                    f"{self.name} has {found:,} nodes and {len(sets):,} information sets of "
                    f"{self.actions:,} actions, or more: they do not fit in memory"
                )
        self.information_state_strings = tuple(string for _, string in sets)
        self.infosets = len(sets)
        table = np.frombuffer(rows, np.int32).reshape(-1, 5)
        gains = np.frombuffer(returns).reshape(-1, self.seats)
        owner = np.array([seat for seat, _ in sets], np.int64)
        return _breadth_first(table, np.frombuffer(chance), gains, owner, self.actions)


def tabular_policy(strings: Sequence[str], legal: Array, sigma: Array) -> Any:
    """Convert a strategy sigma (N, A) to a pyspiel.TabularPolicy.

    strings: (N,) information-state strings. legal: (N, A) bool. Raises ValueError if two
    information sets have the same string, which a TabularPolicy cannot tell apart.
    """
    import pyspiel

    if len(set(strings)) < len(strings):
        raise ValueError("two information sets have the same information-state string")
    return pyspiel.TabularPolicy(
        {
            string: [(int(a), float(row[a])) for a in np.flatnonzero(can)]
            for string, row, can in zip(strings, sigma, legal, strict=True)
        }
    )


def matched_information_state_strings(
    theirs: TreeNodes, strings: Sequence[str], ours: TreeNodes
) -> tuple[str, ...]:
    """Return OpenSpiel's information-state string (N,) for each information set of our tree.

    `theirs`, `ours`: the nodes of OpenSpiel's tree, and of our own tree of the same game.
    `strings`: (N,) information-state string of each information set of OpenSpiel's tree.

    Raises ValueError if the trees differ in shape, chance, payoffs or information sets.
    """
    for name in ("parent", "edge", "seat"):
        if not np.array_equal(getattr(theirs, name), getattr(ours, name)):
            raise ValueError(f"the trees differ in {name}")
    if not np.allclose(theirs.chance, ours.chance, rtol=0, atol=1e-12):
        raise ValueError("the trees differ in chance probabilities")
    ends = theirs.seat == END
    expected, found = (cumulative_gain(nodes)[ends] for nodes in (theirs, ours))
    if not np.allclose(expected, found, rtol=0, atol=1e-9):
        raise ValueError("the trees differ in gains")
    acts = theirs.seat >= 0
    pairs = np.unique(np.stack([ours.infoset[acts], theirs.infoset[acts]], axis=1), axis=0)
    alone = np.array_equal(pairs[:, 0], np.arange(len(ours.observations)))
    if not alone or len(np.unique(pairs[:, 1])) < len(pairs):
        raise ValueError("the trees differ in information sets")
    return tuple(strings[row] for row in pairs[:, 1])


def cumulative_gain(nodes: TreeNodes) -> Array:
    """Return the points (V, S) gained from the root to each node, summed by pointer doubling."""
    total, above = nodes.gain.copy(), nodes.parent.copy()
    while (more := np.flatnonzero(above >= 0)).size:
        total[more] += total[above[more]]
        above[more] = above[above[more]]
    return total


def _has_perfect_information(kind: Any) -> bool:
    """Return whether a game has perfect information but no information-state strings.

    In such a game the history identifies the information set. False if moves are simultaneous.

    `kind`: the pyspiel.GameType of the game.
    """
    sees = kind.information == kind.Information.PERFECT_INFORMATION
    in_turn = kind.dynamics == kind.Dynamics.SEQUENTIAL
    return sees and in_turn and not kind.provides_information_state_string


@cache
def _check_no_crash(name: str) -> None:
    """Raise UserError if a child process that plays the game at random dies or takes too long.

    An exception in the child process is ignored, because it will occur again in this process. A
    game without parameters is not checked.
    """
    if "(" not in name:
        return
    command = [sys.executable, "-P", str(RANDOM_PLAY)]  # its folder is not on the import path
    try:
        code = subprocess.run(
            command, input=name.encode("utf-8", "surrogatepass"), timeout=PATIENCE, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(
            f"openspiel/{name}: OpenSpiel needs more than {PATIENCE} s for it"
        ) from None
    if code < 0:
        died = signal.strsignal(-code)
        raise UserError(
            f"openspiel/{name}: OpenSpiel crashes ({died}): mend the game's parameters or its file"
        )


def _load(name: str) -> Any:
    """Load a game from OpenSpiel and convert simultaneous moves to moves in turn.

    Raises UserError if OpenSpiel is not installed, for an unknown game, and for a game without a
    finite tree or information sets.
    """
    try:
        import pyspiel
    except ImportError:
        raise UserError(
            f"openspiel/{name} needs OpenSpiel: pip install 'overtrick[environments]'"
        ) from None
    short = name.partition("(")[0]
    if short not in pyspiel.registered_names():
        with suppress(ImportError):  # games written in Python register themselves
            import open_spiel.python.games  # noqa: F401
    known = pyspiel.registered_names()
    if short not in known:
        hint = suggestion(short, known, "openspiel/")
        raise UserError(f"unknown game 'openspiel/{name}': {hint}")
    kinds = pyspiel.GameType
    with _one_line(f"openspiel/{name}"):
        game = pyspiel.load_game(name)
        kind = game.get_type()
        if kind.dynamics == kinds.Dynamics.MEAN_FIELD:
            raise UserError("a mean-field game has no tree")
        if kind.chance_mode == kinds.ChanceMode.SAMPLED_STOCHASTIC:
            raise UserError("its chance events are sampled, so it has no tree")
        if not kind.provides_information_state_string and not _has_perfect_information(kind):
            raise UserError("it has no information-state strings, so no information sets")
        if kind.dynamics == kinds.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
        _edges(game.new_initial_state())  # some games check their parameters only here
    return game


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Context manager that converts any error to a UserError of one line.

    Errors of OpenSpiel can be long C++ messages. `name`: the game, for the message.
    """
    try:
        yield
    except Exception as error:
        raise UserError(f"{name}: {' '.join(str(error).split())}") from None


def _action_names(game: Any) -> tuple[str, ...]:
    """Return a name (A,) for each action of an OpenSpiel game.

    An action without a name, or whose name depends on the seat, is named by its index: "action 7".
    """
    seats, actions = range(game.num_players()), range(game.num_distinct_actions())
    try:
        said = [{game.action_to_string(seat, action) for seat in seats} for action in actions]
    except RuntimeError:  # some actions are not for every seat
        said = [set()] * len(actions)
    return tuple(
        next(iter(names)) if len(names) == 1 and "Action(id=" not in str(names) else f"action {a}"
        for a, names in enumerate(said)
    )


def _edges(state: Any) -> list[tuple[int, int, float]]:
    """List the edges from an OpenSpiel state to its children.

    Each edge is a tuple of three:

    - action in OpenSpiel
    - index of the edge in the game tree: the action, or at a chance node the index of the outcome
    - probability of the outcome at a chance node, otherwise 1
    """
    if state.is_chance_node():
        outcomes = [(move, p) for move, p in state.chance_outcomes() if p > 0]
        return [(move, rank, p) for rank, (move, p) in enumerate(outcomes)]
    return [(move, move, 1.0) for move in sorted(state.legal_actions())]


def _size_lower_bound(root: Any, fits: Callable[[float, int], bool]) -> float:
    """Estimate a lower bound on the number of nodes of a game tree, from random descents.

    Knuth 1975, "Estimating the efficiency of backtrack programs".

    `root`: OpenSpiel state at the root of the tree.
    `fits(V, N)`: whether V nodes and N information sets fit in memory. It is called with N = 0. The
        estimation stops early if the tree does not fit.
    """
    # Each descent gives an unbiased estimate of the size. In an uneven tree a few large estimates
    # dominate their arithmetic mean; the geometric mean is then a better lower bound. The larger
    # bound of the two means is returned.
    rng = np.random.default_rng(0)
    sizes: list[float] = []
    size = 0.0
    for descents in (FEW, DESCENTS):
        sizes += [_descend(root.clone(), rng) for _ in range(descents - len(sizes))]
        low = max(_low(np.array(sizes)), float(np.exp(_low(np.log(sizes)))))
        size = low * (1 - 1e-9)  # the estimate of a regular tree is exact except for rounding
        if not fits(size, 0):
            break
    return size


def _low(samples: Array) -> float:
    """Return the mean of the samples minus three standard errors."""
    return float(samples.mean() - 3 * samples.std(ddof=1) / np.sqrt(len(samples)))


def _descend(state: Any, rng: np.random.Generator) -> float:
    """Play one random game and return Knuth's estimate of the number of nodes of the tree.

    Knuth's estimate is the sum of the products of branching factors along the path. It is too low
    if the game is cut off after LONGEST moves or HUGE nodes.
    """
    size = product = 1.0
    for _ in range(LONGEST):
        edges = _edges(state)
        if not edges or size > HUGE:
            break
        product *= len(edges)
        size += product
        state.apply_action(edges[rng.integers(len(edges))][0])
    return size


def _breadth_first(
    table: Array, chance: Array, gains: Array, owner: Array, actions: int
) -> TreeNodes:
    """Build TreeNodes in breadth-first order from nodes in depth-first order.

    table: (V, 5) int32 parent, edge, depth, seat, information set. chance: (V,) probabilities.
    gains: (ends, S) payoffs of the terminal nodes, depth first. owner: (N,) seat of each
    information set. actions: number of actions, A.
    """
    order = np.argsort(table[:, 2], kind="stable")  # so children stay in their parents' order
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    parent, edge, seat, infoset = (table[order, column] for column in (0, 1, 3, 4))
    parent[1:] = place[parent[1:]]
    gain = np.zeros((len(order), gains.shape[1]))
    gain[place[table[:, 3] == END]] = gains
    legal = np.zeros((len(owner), actions), bool)
    chosen = 1 + np.flatnonzero(seat[parent[1:]] >= 0)
    legal[infoset[parent[chosen]], edge[chosen]] = True
    rows = np.arange(len(owner))
    observations = Observations(rows, owner, rows[:, None], legal, rows)
    return TreeNodes(gains.shape[1], parent, edge, seat, infoset, chance[order], gain, observations)
