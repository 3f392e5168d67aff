"""What is wrong with a bidding system: rules that no hand fits, rules that are never reached, and
places where a hand has no call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.random import default_rng

from overtrick.core import Array, UserError
from overtrick.games.bridge.auction_rules import (
    CALL_COUNT,
    CALLS,
    LAST_BID,
    NEXT_SEAT,
    PASS,
    is_legal_call,
)
from overtrick.games.bridge.cardplay.minibridge import format_hand
from overtrick.games.bridge.cards import hand_bits, random_deals
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.compiler import Block, Meant, Tables
from overtrick.games.bridge.system.hand_terms import NO_REF, Test
from overtrick.games.bridge.system.parser import Place, Rule
from overtrick.games.bridge.system.public_knowledge import LIMITS, PROMISED, look, settle, sit
from overtrick.games.bridge.system.rule_matching import (
    NO_RULE,
    choose,
    holds,
    learn,
    scratch,
    tools,
)

POOL = 1500  # random deals whose hands are tried at every place
TRIED = 60  # hands at one place that fit what their player has shown


def check(
    places: Sequence[Place], rules: Sequence[Rule], blocks: Sequence[Block], tables: Tables
) -> None:
    """Raise UserError with the file, the line and the rule for the first that is wrong."""
    for problem in problems(places, rules, blocks, tables):
        raise UserError(problem)


def problems(
    places: Sequence[Place], rules: Sequence[Rule], blocks: Sequence[Block], tables: Tables
) -> Iterator[str]:
    """A line for each thing that is wrong."""
    by_rule: dict[int, list[tuple[Meant, Sequence[Block]]]] = {}
    for block, covering in zip(blocks, _covering(places, blocks), strict=True):
        for meant in block.meant:
            by_rule.setdefault(meant.rule, []).append((meant, (*covering, block)))
    for number, rule in enumerate(rules):
        where = f"{rule.source}, line {rule.line}: rule '{rule.name}'"
        ways = by_rule.get(number, [])
        earlier = [_earlier(meant, there, places) for meant, there in ways]
        if all(impossible(meant.tests) for meant, _ in ways):
            yield f"{where} shows what no hand has: {', '.join(rule.shows) or rule.call}"
        elif None not in earlier:
            before = rules[next(each for each in earlier if each is not None)]
            taken = f"line {before.line}, '{before.name}', takes all its hands"
            yield f"{where} is never reached: {taken}"
    mine = [block.shape.whole and not places[block.place].based for block in blocks]
    exact = [
        k for k, right in enumerate(mine) if right
    ]  # places of a file that it is based on are that file's affair
    length = max(len(block.shape.masks) for block in blocks) + 1
    masks = np.zeros((len(exact), length), np.int64)
    for row, k in enumerate(exact):
        masks[row, : len(blocks[k].shape.masks)] = blocks[k].shape.masks[::-1]
    found = _without_call(tables, np.array(exact, np.int64), masks, *tools(), _pool())
    for k, cards in zip(exact, found, strict=True):
        if cards:
            place = places[blocks[k].place]
            at = " | ".join(place.patterns)
            yield (
                f"{place.source}, line {place.line}: a gap: {format_hand(int(cards))} has no call "
                f"at '{at}': let its rules for a pass take it, or add one"
            )


def impossible(tests: Sequence[Test]) -> bool:
    """Can no hand pass these tests?"""
    lo, hi = LIMITS[0].copy(), LIMITS[1].copy()
    for test in tests:
        if test.ref == NO_REF:
            lo[test.index] = max(lo[test.index], test.lo)
            hi[test.index] = min(hi[test.index], test.hi)
    lengths = slice(hand_evaluation.LENGTH, hand_evaluation.LENGTH + 4)
    if (lo > hi).any() or lo[lengths].sum() > 13 or hi[lengths].sum() < 13:
        return True
    if lo[hand_evaluation.SHAPE] == 2 and ((lo[lengths] > 5).any() or (hi[lengths] < 2).any()):
        return True
    wide = lo.copy(), hi.copy()
    settle(*wide)
    return bool((wide[0] > hi).any() or (wide[1] < lo).any())


def _covering(places: Sequence[Place], blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """For each block those before it in the same file whose calls have been made wherever its own
    have; what a file is based on stands behind it on purpose."""
    none = 1 << len(CALLS)  # no call since the opening bid
    sets = np.full((len(blocks), 1 + max(len(block.shape.masks) for block in blocks)), 2 * none - 1)
    for row, block in enumerate(blocks):
        if block.shape.whole:
            sets[row] = none
        sets[row, : len(block.shape.masks)] = block.shape.masks
    based = np.array([places[block.place].based for block in blocks])
    for row in range(len(blocks)):
        covered = ((sets[row] & ~sets[:row]) == 0).all(axis=1) & (based[:row] == based[row])
        yield [blocks[k] for k in np.flatnonzero(covered).tolist()]


def _earlier(meant: Meant, there: Sequence[Block], places: Sequence[Place]) -> int | None:
    """The rule before this one that takes every hand that fits it, in its own block, the last one,
    or in those that cover it."""
    if meant.heard:
        return None
    holding = (*there[-1].when, *meant.when)
    for block in there:
        if not all(_implied(test, holding) for test in block.when):
            continue
        first = places[block.place].level == 0
        for other in block.meant:
            if other is meant:
                return None
            if other.rule == meant.rule or other.heard or not _lawful_too(other, meant, first):
                continue
            if all(_implied(test, holding) for test in other.when) and all(
                _implied(test, meant.tests) for test in other.tests
            ):
                return other.rule
    return None


def _lawful_too(other: Meant, meant: Meant, first: bool) -> bool:
    """May another call be made wherever this one may? At places of the first level; after them
    another place may have named the one call and not the other."""
    if (other.call, other.relative) == (meant.call, meant.relative):
        return True
    if not first:
        return False
    if not other.relative and other.call == PASS:
        return True
    bids = other.call < PASS and meant.call < PASS and not other.relative and not meant.relative
    return bids and other.call >= meant.call


def _implied(test: Test, by: Sequence[Test]) -> bool:
    return any(
        each.index == test.index
        and each.ref == test.ref
        and test.lo <= each.lo
        and each.hi <= test.hi
        for each in by
    )


def _pool() -> Array:
    """(H,) hands that are tried at every place, always the same."""
    return hand_bits(random_deals(POOL, default_rng(0))).reshape(-1)


@njit(cache=True)
def _without_call(tables, blocks, masks, table, fields, limits, pool):  # type: ignore[no-untyped-def]
    """(B,) at each block a hand that no rule takes, 0 if none was found. The auction is the lowest
    lawful one that leads there, after as many passes as the conditions of the place ask for."""
    view, owner, matched, lo, hi = scratch(limits, len(tables.rule))
    found = np.zeros(len(blocks), np.int64)
    held = np.zeros((len(pool), limits.shape[1]), np.int16)
    hand_evaluation.evaluate(pool, held)
    for k in range(len(blocks)):
        for passes in range(4):
            sit(table, 0, 0, limits)
            right = _lead(
                tables, table, masks[k], passes, view, owner, matched, lo, hi, fields, limits
            )
            if not right:
                continue
            look(table, fields, view)
            if not holds(tables, blocks[k], table, view):
                continue
            found[k] = _first_without(
                tables, table, pool, held, view, owner, matched, lo, hi, limits
            )
            break
    return found


@njit(cache=True)
def _lead(tables, table, masks, passes, view, owner, matched, lo, hi, fields, limits):  # type: ignore[no-untyped-def]
    """Make passes and then the lowest lawful call of each set; False if there is none."""
    nothing = np.zeros(limits.shape[1], np.int16)
    for step in range(passes + len(masks)):
        mask = 1 << PASS if step < passes else masks[step - passes]
        if mask == 0:
            break
        made = -1
        for call in range(38):
            if (mask >> call) & 1 and is_legal_call(table.now, call):
                made = call
                break
        if (mask >> PASS) & 1 and table.now[LAST_BID] >= 0:
            made = PASS  # of any call, the plainest
        if made < 0 or table.now[CALL_COUNT] >= 60:
            return False
        seat = table.now[NEXT_SEAT]
        look(table, fields, view)
        _, _, row = choose(
            tables, table, view, nothing, False, made, owner, matched, lo, hi, limits
        )
        learn(tables, table, seat, made, row, lo, hi)
    return True


@njit(cache=True)
def _first_without(tables, table, pool, held, view, owner, matched, lo, hi, limits):  # type: ignore[no-untyped-def]
    """A hand that fits what its player has shown, but has no call; or 0."""
    seat = table.now[NEXT_SEAT]
    shown_lo, shown_hi = table.lo[PROMISED, seat], table.hi[PROMISED, seat]
    tried = 0
    for k in range(len(pool)):
        fitting = True
        for field in range(limits.shape[1]):
            if not shown_lo[field] <= held[k, field] <= shown_hi[field]:
                fitting = False
                break
        if not fitting:
            continue
        _, _, row = choose(tables, table, view, held[k], True, -1, owner, matched, lo, hi, limits)
        if row == NO_RULE:
            return pool[k]
        tried += 1
        if tried == TRIED:
            break
    return 0
