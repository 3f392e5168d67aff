"""Any game of OpenSpiel as the nodes of a tree, for the exact solvers; strategies go back to it.

Lanctot et al. 2019, "OpenSpiel: A framework for reinforcement learning in games". Seats that move
at once move in turn here, unseen by those that follow, as OpenSpiel itself converts such games.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from overtrick.core import END, Array, Observations, TreeNodes, UserError, nearest

FEW, DESCENTS = 8, 400  # a huge tree shows in a few descents
LONGEST, HUGE = 1_000, 1e100  # moves and nodes after which a descent has said enough


class OpenSpiel:
    """A game by OpenSpiel's own name for it, parameters included: `leduc_poker(players=3)`.

    Actions have OpenSpiel's numbers, chance outcomes their rank among those that can come, and
    all is gained on the edges into ends. Raises UserError if there is no such game, or none that a
    tree can hold.
    """

    def __init__(self, name: str) -> None:
        self._theirs = name
        self._game = _load(name)
        self.name = f"openspiel/{name}"
        self.seats: int = self._game.num_players()
        self.unit = "point"
        self.actions: int = self._game.num_distinct_actions()
        self.action_names = _action_names(self._game)
        self.information_state_strings: tuple[
            str, ...
        ] = ()  # (N,) information-state strings; `nodes` fills them in
        self.infosets: int | None = None  # N; `nodes` counts them

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenSpiel, (self._theirs,)

    def nodes(self, fits: Callable[[float, int], bool]) -> TreeNodes:
        """The whole tree; information sets are numbered as a depth-first walk meets them.

        Raises UserError unless fits(V, N), V nodes and N information sets: at once where a few
        random descents show it, else when the walk has found so many.
        """
        root = self._game.new_initial_state()
        with _one_line(self.name):
            size = _surely(root, fits)
        if not fits(size, 0):
            raise UserError(
                f"{self.name} has some {size:.0e} nodes or more: they do not fit in memory"
            )
        rows, chance, returns = array("i"), array("d"), array("d")
        sets: dict[tuple[int, str], int] = {}
        known = _history if _sees_all(self._game.get_type()) else _told
        todo: list[tuple[Any, int, int, int, int, float]] = [(None, 0, -1, 0, 0, 1.0)]
        while todo:
            above, move, parent, depth, edge, probability = todo.pop()
            state = root if above is None else above.child(move)
            node, who, ways, number = len(chance), state.current_player(), _ways(state), -1
            if who >= 0:
                number = sets.setdefault((who, known(state)), len(sets))
            if not ways:
                who = END
                returns.extend(state.returns())
            rows.extend((parent, edge, depth, who, number))
            chance.append(probability)
            todo += [(state, move, node, depth + 1, edge, p) for move, edge, p in reversed(ways)]
            if not fits(found := len(chance) + len(todo), len(sets)):
                raise UserError(
                    f"{self.name} has {found:,} nodes and {len(sets):,} information sets of "
                    f"{self.actions:,} actions, or more: they do not fit in memory"
                )
        self.information_state_strings, self.infosets = tuple(word for _, word in sets), len(sets)
        table = np.frombuffer(rows, np.int32).reshape(-1, 5)
        gains = np.frombuffer(returns).reshape(-1, self.seats)
        owner = np.array([who for who, _ in sets], np.int64)
        return _breadth_first(table, np.frombuffer(chance), gains, owner, self.actions)


def tabular_policy(words: Sequence[str], legal: Array, sigma: Array) -> Any:
    """A strategy (N, A) as a pyspiel.TabularPolicy; words (N,), legal (N, A).

    Raises ValueError if two seats know the same words: a TabularPolicy cannot tell them apart.
    """
    import pyspiel

    if len(set(words)) < len(words):
        raise ValueError("an information-state string stands for two information sets")
    return pyspiel.TabularPolicy(
        {
            word: [(int(a), float(row[a])) for a in np.flatnonzero(can)]
            for word, row, can in zip(words, sigma, legal, strict=True)
        }
    )


def matched_information_state_strings(
    theirs: TreeNodes, words: Sequence[str], ours: TreeNodes
) -> tuple[str, ...]:
    """(N,) OpenSpiel's string for each information set of a game of ours with the same tree.

    words (N,) are theirs. Raises ValueError if the trees differ in shape, in chance, in what is
    gained on the way to an end, or in what the seats can tell apart.
    """
    for name in ("parent", "edge", "seat"):
        if not np.array_equal(getattr(theirs, name), getattr(ours, name)):
            raise ValueError(f"the trees differ in {name}")
    if not np.allclose(theirs.chance, ours.chance, rtol=0, atol=1e-12):
        raise ValueError("the trees differ in chance")
    ends = theirs.seat == END
    if not np.allclose(
        cumulative_gain(theirs)[ends], cumulative_gain(ours)[ends], rtol=0, atol=1e-9
    ):
        raise ValueError("the trees differ in gains")
    acts = theirs.seat >= 0
    pairs = np.unique(np.stack([ours.infoset[acts], theirs.infoset[acts]], axis=1), axis=0)
    alone = np.array_equal(pairs[:, 0], np.arange(len(ours.observations)))
    if not alone or len(np.unique(pairs[:, 1])) < len(pairs):
        raise ValueError("the trees differ in what the seats can tell apart")
    return tuple(words[row] for row in pairs[:, 1])


def cumulative_gain(nodes: TreeNodes) -> Array:
    """(V, S) points gained from the root to each node, by doubling the way that is summed."""
    total, above = nodes.gain.copy(), nodes.parent.copy()
    while (more := np.flatnonzero(above >= 0)).size:
        total[more] += total[above[more]]
        above[more] = above[above[more]]
    return total


def _told(state: Any) -> str:
    """What the game says that the seat to act knows."""
    return state.information_state_string()


def _history(state: Any) -> str:
    """All that came so far."""
    return state.history_str()


def _sees_all(kind: Any) -> bool:
    """Whether seats see all that came, in a game that has no words for what they know."""
    sees = kind.information == kind.Information.PERFECT_INFORMATION
    in_turn = kind.dynamics == kind.Dynamics.SEQUENTIAL
    return sees and in_turn and not kind.provides_information_state_string


def _load(name: str) -> Any:
    """The game as one in which a seat moves at a time."""
    try:
        import pyspiel
    except ImportError:
        raise UserError(
            f"openspiel/{name} needs OpenSpiel: pip install 'overtrick[doors]'"
        ) from None
    short = name.partition("(")[0]
    if short not in pyspiel.registered_names():
        with suppress(ImportError):  # games written in Python register themselves
            import open_spiel.python.games  # noqa: F401
    known = pyspiel.registered_names()
    if short not in known:
        near = nearest(short, known)
        raise UserError(f"unknown game 'openspiel/{name}': did you mean 'openspiel/{near}'?")
    kinds = pyspiel.GameType
    with _one_line(f"openspiel/{name}"):
        game = pyspiel.load_game(name)
        kind = game.get_type()
        if kind.dynamics == kinds.Dynamics.MEAN_FIELD:
            raise UserError("a mean-field game has no tree")
        if kind.chance_mode == kinds.ChanceMode.SAMPLED_STOCHASTIC:
            raise UserError("it samples its chance, so it has no tree")
        if not kind.provides_information_state_string and not _sees_all(kind):
            raise UserError("it does not say what a seat knows, so it has no information sets")
        if kind.dynamics == kinds.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
        _ways(game.new_initial_state())  # here some games first look at their parameters
    return game


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Refuse in one line what C++ refuses at length, by errors of any type."""
    try:
        yield
    except Exception as error:
        raise UserError(f"{name}: {' '.join(str(error).split())}") from None


def _action_names(game: Any) -> tuple[str, ...]:
    """What every seat calls each action; its number where the game has no name for it."""
    seats, actions = range(game.num_players()), range(game.num_distinct_actions())
    try:
        said = [{game.action_to_string(seat, action) for seat in seats} for action in actions]
    except RuntimeError:  # some actions are not for every seat
        said = [set()] * len(actions)
    return tuple(
        next(iter(names)) if len(names) == 1 and "Action(id=" not in str(names) else f"action {a}"
        for a, names in enumerate(said)
    )


def _ways(state: Any) -> list[tuple[int, int, float]]:
    """How a node goes on: OpenSpiel's move, the edge, and its probability if chance moves."""
    if state.is_chance_node():
        outcomes = [(move, p) for move, p in state.chance_outcomes() if p > 0]
        return [(move, rank, p) for rank, (move, p) in enumerate(outcomes)]
    return [(move, move, 1.0) for move in sorted(state.legal_actions())]


def _surely(root: Any, fits: Callable[[float, int], bool]) -> float:
    """A number of nodes that the tree below a state surely has; the first found that does not fit.

    A random descent's sum of products of branching factors is the tree's size on average (Knuth
    1975, "Estimating the efficiency of backtrack programs"). Where a tree is so uneven that a
    few descents make the mean, the mean logarithm still tells: it is at most the size's own.
    """
    rng = np.random.default_rng(0)
    sizes: list[float] = []
    size = 0.0
    for descents in (FEW, DESCENTS):
        sizes += [_descend(root.clone(), rng) for _ in range(descents - len(sizes))]
        low = max(_low(np.array(sizes)), float(np.exp(_low(np.log(sizes)))))
        size = low * (1 - 1e-9)  # a regular tree's is exact but for rounding
        if not fits(size, 0):
            break
    return size


def _low(samples: Array) -> float:
    """Three standard errors below the mean."""
    return float(samples.mean() - 3 * samples.std(ddof=1) / np.sqrt(len(samples)))


def _descend(state: Any, rng: np.random.Generator) -> float:
    """One random game's estimate of the number of nodes; too low if the game is cut off."""
    size = product = 1.0
    for _ in range(LONGEST):
        ways = _ways(state)
        if not ways or size > HUGE:
            break
        product *= len(ways)
        size += product
        state.apply_action(ways[rng.integers(len(ways))][0])
    return size


def _breadth_first(
    table: Array, chance: Array, gains: Array, owner: Array, actions: int
) -> TreeNodes:
    """The nodes (V,) of a depth-first walk: parent, edge, depth, seat, information set (V, 5).

    gains: (ends, S); owner: (N,) the seat of each information set.
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
