"""How much an opponent can be exploited by strategies that can hardly be exploited themselves.

Exploitability is a seat's share of NashConv. In a zero-sum game of two seats it is the mean of what
the best responses to both seats win, and each is the most of functions that are linear in the
realisation plan (von Stengel 1996): so it is convex in the plan, while the payoff against a fixed
opponent is linear. Whatever follows rests on these two laws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import block_array, block_diag, csr_array, eye_array, vstack

from overtrick.core import Array, Refused
from overtrick.solvers import value
from overtrick.solvers.sequence_form import Program, check, optimum, program, strategy
from overtrick.solvers.tree import Tree
from overtrick.solvers.walk import plan

HALVINGS = 40  # of a share; 2^-40 times the points of a game is far below what is measured


def mix(tree: Tree, safe: Array, free: Array, share: float) -> Array:
    """The strategy (N, A) that plays as if it drew, before each game, whom to follow throughout.

    Each seat follows free with probability share and safe otherwise: its realisation plan is
    (1 - share) x safe's + share x free's. At an information set both count by how probably their
    own choices lead there (Kuhn 1953); where neither leads, safe stands. Raises Refused if one is
    no strategy of this tree.
    """
    for sigma in (safe, free):
        value.check(tree, sigma)
    return _mixed(safe, free, _leads(tree, safe), _leads(tree, free), share)


def within(tree: Tree, safe: Array, free: Array, bound: float) -> tuple[Array, float]:
    """The mixture of two strategies with the largest share of free that is safe, and the share.

    Its exploitability is at most bound points above that of safe. Along shares it is convex, so all
    those up to the largest are safe too, and halving finds it. Raises Refused unless the game has
    two seats and is zero-sum, the bound is at least 0, and both are strategies of this tree.
    """
    check(tree, "a bound on exploitability")
    _demand_bound(bound)
    for sigma in (safe, free):
        value.check(tree, sigma)
    ours, theirs = _leads(tree, safe), _leads(tree, free)

    def at(share: float) -> tuple[Array, float]:
        sigma = _mixed(safe, free, ours, theirs, share)
        return sigma, float(value.nash_convs(tree, sigma[None])[0]) / 2

    most = at(0)[1] + bound
    if at(1)[1] <= most:
        return at(1)[0], 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] <= most else (low, middle)
    return at(low)[0], low


def nearest(tree: Tree, safe: Array, free: Array, bound: float) -> Array:
    """The strategy (N, A) nearest to free whose exploitability is at most bound above that of safe.

    Unlike a mixture it gives up most where that buys the most safety. Distance is between
    realisation plans: the sum of absolute differences, each weighted by how often chance and a
    uniform opponent let it matter. Exact, by a linear program. Raises Refused as within.
    """
    check(tree, "a bound on exploitability")
    _demand_bound(bound)
    most = value.exploitability(tree, safe) + bound
    if value.exploitability(tree, free) <= most:
        return free
    limits = _bounded([program(tree, seat) for seat in range(2)], most)
    wanted = np.tile(plan(tree, tree.flat(free)), 2)
    places, unknowns = len(wanted) // 2, len(limits.least) // 2
    pick = csr_array(block_diag([eye_array(places, unknowns)] * 2))
    apart = eye_array(len(wanted))  # at least plan - wanted and wanted - plan
    both = limits._replace(
        least=np.append(limits.least, np.zeros(len(wanted))),
        at_most=csr_array(block_array([[limits.at_most, None], [pick, -apart], [-pick, -apart]])),
        most=np.concatenate([limits.most, wanted, -wanted]),
        flow=csr_array(block_array([[limits.flow, csr_array((len(limits.start), len(wanted)))]])),
    )
    goal = np.append(np.zeros(2 * unknowns), np.tile(-_matters(tree), 2))
    found = optimum(both, goal)
    return strategy(tree, np.split(found[: 2 * unknowns], 2))


def restricted_response(tree: Tree, opponent: Array, trust: float) -> Array:
    """An equilibrium strategy (N, A) against one who plays opponent with probability trust.

    With the rest of it they do what hurts most. So in each seat it has the most trust x payoff
    against opponent + (1 - trust) x what it secures: trust 0 is an equilibrium, trust 1 a best
    response, and none between wins as much and is less exploitable. Exact, by a linear program.
    Raises Refused as within. Johanson, Zinkevich and Bowling 2007, "Computing robust
    counter-strategies" (restricted Nash response).
    """
    if not 0 <= trust <= 1:
        raise Refused(f"trust must be 0 to 1, not {trust:g}")
    found = []
    for rules, wins in _programs(tree, opponent):
        found.append(optimum(rules, trust * wins + (1 - trust) * rules.secured))
    return strategy(tree, found)


def safest_response(tree: Tree, opponent: Array, bound: float) -> Array:
    """A strategy (N, A) that wins the most of all whose exploitability is at most bound points.

    One linear program for both seats, which share the bound as they share exploitability. Bound 0
    is the equilibrium that suits the opponent best. Raises Refused as within. McCracken and Bowling
    2004, "Safe strategies for agent modelling in games", there for one seat.
    """
    _demand_bound(bound)
    programs, wins = zip(*_programs(tree, opponent), strict=True)
    found = optimum(_bounded(programs, bound), np.concatenate(wins))
    return strategy(tree, np.split(found, 2))


def _bounded(programs: Sequence[Program], most: float) -> Program:
    """The programs of both seats as one, U unknowns each, with an exploitability of at most most.

    What the two plans secure together is minus twice that.
    """
    first, second = programs
    lost = -np.concatenate([first.secured, second.secured])
    return Program(
        first.points,
        np.concatenate([first.least, second.least]),
        csr_array(vstack([block_diag([first.at_most, second.at_most]), lost[None]])),
        np.concatenate([first.most, second.most, [2 * most]]),
        csr_array(block_diag([first.flow, second.flow])),
        np.concatenate([first.start, second.start]),
    )


def _programs(tree: Tree, opponent: Array) -> list[tuple[Program, Array]]:
    """Each seat's program, and (U,) what its unknowns win against an opponent."""
    check(tree, "a bound on exploitability")
    value.check(tree, opponent)
    theirs = plan(tree, tree.flat(opponent))
    made = []
    for seat in range(2):
        rules = program(tree, seat)
        wins = np.zeros(len(rules.least))
        wins[: len(theirs)] = theirs @ rules.points
        made.append((rules, wins))
    return made


def _demand_bound(bound: float) -> None:
    if not bound >= 0:  # nor is nan
        raise Refused(f"a bound on exploitability must be at least 0, not {bound:g}")


def _matters(tree: Tree) -> Array:
    """(1 + L,) probability that chance and a uniform opponent let a seat choose each action."""
    come = np.zeros(tree.infosets)
    for seat in range(2):
        acts = np.flatnonzero(tree.seat == seat)
        others = value.reach(tree, tree.uniform(), without=seat)[acts]
        come += np.bincount(tree.infoset[acts], others, minlength=tree.infosets)
    return np.append(0, come[tree.owner])


def _leads(tree: Tree, sigma: Array) -> Array:
    """(N,) probability that a seat's own choices lead to each of its information sets."""
    return plan(tree, tree.flat(sigma))[tree.past]


def _mixed(safe: Array, free: Array, ours: Array, theirs: Array, share: float) -> Array:
    """The mixture, from how probably each one's own choices lead to each information set."""
    total = (1 - share) * ours + share * theirs
    weight = np.where(total > 0, share * theirs / np.where(total > 0, total, 1), 0)[:, None]
    return (1 - weight) * safe + weight * free
