"""Check a bidding system for five kinds of problems.

- A rule fits no hand.
- A rule is unreachable, because earlier rules apply to all its hands.
- There is a gap: an auction in which the system has rules, but a possible hand fits none of them.
- In an auction between four players of the system, a rule passes partner's forcing bid, or passes
  below game after a game force.
- In such an auction, a hand that must bid has no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.random import default_rng

from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import CALL_COUNT, CALLS, LAST_BID, PASS, format_calls
from overtrick.games.bridge.cards import format_hand, hand_bits, random_deals
from overtrick.games.bridge.system import hand_evaluation, rule_matching
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.auction_simulation import (
    GAME_FORCED,
    PARTNER_FORCES,
    trace_auctions,
)
from overtrick.games.bridge.system.bidding_system import System
from overtrick.games.bridge.system.compiler import ExpandedRule, RuleBlock, SystemTables
from overtrick.games.bridge.system.hand_terms import NO_REF, RangeTest
from overtrick.games.bridge.system.parser import Rule
from overtrick.games.bridge.system.rule_matching import NO_CALL, NO_RULE, hear_call, match_rules

AUCTIONS = 4000  # number of random deals that are bid to check whole auctions
DEALS = 1500  # number of random deals, whose hands are tried in every example auction
MAX_TRIED = 60  # maximum number of hands tried in an auction; all make the seat's earlier calls


def find_problems(system: System, blocks: Sequence[RuleBlock]) -> Iterator[str]:
    """Yield an error message for each problem of a bidding system, with its file, line and rule.

    blocks: the rules of the system by auction pattern, with suits in place of suit variables such
    as M for a major.
    """
    yield from _rule_problems(system.rules, blocks)
    yield from _gaps(system.tables, blocks)
    yield from _auction_problems(system)


def _rule_problems(rules: Sequence[Rule], blocks: Sequence[RuleBlock]) -> Iterator[str]:
    """Yield a message for each rule that fits no hand or is unreachable.

    The arguments are the rules of a system as in its file, and by auction pattern.
    """
    by_rule: dict[int, list[tuple[ExpandedRule, Sequence[RuleBlock]]]] = {}
    for block, covering in zip(blocks, _covering_blocks(blocks), strict=True):
        for expanded in block.rules:
            by_rule.setdefault(expanded.rule, []).append((expanded, (*covering, block)))
    for number, rule in enumerate(rules):
        where = f"{rule.source}, line {rule.line}: rule '{rule.name}'"
        variants = by_rule.get(number, [])
        earlier = [_shadowing_rule(each, tried) for each, tried in variants]
        if all(is_impossible(each.tests) for each, _ in variants):
            yield f"{where} fits no hand: {', '.join(rule.shows) or rule.call}"
        elif None not in earlier:
            before = rules[next(each for each in earlier if each is not None)]
            taken = f"line {before.line}, '{before.name}', applies to all its hands"
            yield f"{where} is never reached: {taken}"


def _gaps(tables: SystemTables, blocks: Sequence[RuleBlock]) -> Iterator[str]:
    """Yield a message for each block of rules at which a hand without a rule was found.

    blocks: the rules of the system by auction pattern. Blocks of a base file are left out: they are
    checked when that file is loaded by itself.
    """
    exact = [k for k, each in enumerate(blocks) if each.shape.whole and not each.place.base_depth]
    length = max(len(block.shape.masks) for block in blocks) + 1
    masks = np.zeros((len(exact), length), np.int64)
    for row, k in enumerate(exact):
        masks[row, : len(blocks[k].shape.masks)] = blocks[k].shape.masks[::-1]
    hands = hand_bits(random_deals(DEALS, default_rng(0))).reshape(-1)
    knowledge = public.new_knowledge(len(tables.rule))
    found = _find_gaps(tables, np.array(exact, np.int64), masks, knowledge, hands)
    for k, cards in zip(exact, found, strict=True):
        if cards:
            place = blocks[k].place
            at = " | ".join(place.patterns)
            yield (
                f"{place.source}, line {place.line}: a gap: {format_hand(int(cards))} has no call "
                f"at '{at}': widen the rule for a pass, or add a rule"
            )


def _auction_problems(system: System) -> Iterator[str]:
    """Yield a message for each rule that passes a forcing bid or forces a hand without a rule.

    The system bids AUCTIONS random deals at all four seats. Passes of forcing doubles are allowed.
    """
    rng = default_rng(0)
    hands = hand_bits(random_deals(AUCTIONS, rng))
    dealer, vulnerable = np.arange(AUCTIONS) % 4, rng.integers(4, size=AUCTIONS)
    traced = trace_auctions(hands, dealer, vulnerable, system, system)
    by_partner = (traced.forced == PARTNER_FORCES) | (traced.forced == GAME_FORCED)
    passed = by_partner & (traced.calls == PASS)
    without = (traced.forced > 0) & (traced.calls >= 0) & (traced.rule == NO_RULE)
    reported: set[tuple[int, int]] = set()
    for game, at in zip(*np.nonzero(passed | without), strict=True):
        made_by, forced_by = int(traced.rule[game, at]), int(traced.read[game, at - 2])
        if (made_by, forced_by) in reported:
            continue
        reported.add((made_by, forced_by))
        hand = format_hand(int(hands[game, (dealer[game] + at) % 4]))
        after = f"after {format_calls(traced.calls[game, :at].tolist())}"
        if traced.forced[game, at] == GAME_FORCED:
            cause, name = "the game force", ""
        else:
            rule = system.rules[forced_by]
            cause = f"a forcing call ({rule.source}, line {rule.line})"
            name = f"{rule.source}, line {rule.line}: rule '{rule.name}' is forcing, but "
        if made_by == NO_RULE:
            remedy = "add a rule for a bid, with 'anything'"
            yield f"{name}{hand} must bid and has no rule {after}: {remedy}"
        else:
            fault = system.rules[made_by]
            yield (
                f"{fault.source}, line {fault.line}: rule '{fault.name}' passes {cause} with "
                f"{hand} {after}: bid instead, or let the call not be forcing"
            )


def is_impossible(tests: Sequence[RangeTest]) -> bool:
    """Return whether it is certain that no hand of 13 cards passes all tests of hand features."""
    lo, hi = public.LIMITS.copy()
    for test in tests:
        if test.ref == NO_REF:
            lo[test.index] = max(lo[test.index], test.lo)
            hi[test.index] = min(hi[test.index], test.hi)
    lengths = slice(hand_evaluation.LENGTH, hand_evaluation.LENGTH + 4)
    if (lo > hi).any() or lo[lengths].sum() > 13 or hi[lengths].sum() < 13:
        return True
    if lo[hand_evaluation.SHAPE] == 2 and ((lo[lengths] > 5).any() or (hi[lengths] < 2).any()):
        return True
    tight_lo, tight_hi = lo.copy(), hi.copy()
    public.tighten_ranges(tight_lo, tight_hi)
    return bool((tight_lo > hi).any() or (tight_hi < lo).any())


def _covering_blocks(blocks: Sequence[RuleBlock]) -> Iterator[list[RuleBlock]]:
    """Yield, for each block of rules, the earlier blocks whose auction pattern subsumes its own.

    A pattern subsumes another pattern if it matches every auction that the other pattern matches.
    Only blocks of the same file are compared, because a file may override its base file on purpose.
    """
    none = 1 << len(CALLS)  # no call since the opening bid
    sets = np.full((len(blocks), 1 + max(len(block.shape.masks) for block in blocks)), 2 * none - 1)
    for row, block in enumerate(blocks):
        if block.shape.whole:
            sets[row] = none
        sets[row, : len(block.shape.masks)] = block.shape.masks
    depth = np.array([block.place.base_depth for block in blocks])
    for row in range(len(blocks)):
        covered = ((sets[row] & ~sets[:row]) == 0).all(axis=1) & (depth[:row] == depth[row])
        yield [blocks[k] for k in np.flatnonzero(covered).tolist()]


def _shadowing_rule(rule: ExpandedRule, blocks: Sequence[RuleBlock]) -> int | None:
    """Return the index in System.rules of an earlier rule that shadows `rule`, or None.

    A shadowed rule is unreachable: the earlier rule applies to every auction and every hand to
    which the shadowed rule applies.

    blocks: groups of rules with one auction pattern each, in the order in which they are tried. The
    last block contains `rule`; the patterns of all earlier blocks subsume its pattern.
    """
    if rule.heard:
        return None
    conditions = (*blocks[-1].when, *rule.when)
    for block in blocks:
        if not all(_is_implied(test, conditions) for test in block.when):
            continue
        first = block.place.priority == 0
        for other in block.rules:
            if other is rule:
                return None
            if other.rule == rule.rule or other.heard or not _legal_too(other, rule, first):
                continue
            if all(_is_implied(test, conditions) for test in other.when) and all(
                _is_implied(test, rule.tests) for test in other.tests
            ):
                return other.rule
    return None


def _legal_too(other: ExpandedRule, rule: ExpandedRule, first: bool) -> bool:
    """Return whether the call of `other` is available in every auction where that of `rule` is.

    A call is available if it is legal and no section of higher precedence has a rule for it. If
    this is uncertain, return False.

    first: whether `other` is in a section of the highest precedence, `Place.priority` 0.
    """
    if (other.call, other.relative) == (rule.call, rule.relative):
        return True
    if not first:
        return False
    if not other.relative and other.call == PASS:
        return True
    bids = other.call < PASS and rule.call < PASS and not other.relative and not rule.relative
    return bids and other.call >= rule.call


def _is_implied(test: RangeTest, by: Sequence[RangeTest]) -> bool:
    same_field = (each for each in by if (each.index, each.ref) == (test.index, test.ref))
    return any(test.lo <= each.lo and each.hi <= test.hi for each in same_field)


@njit(cache=True)
def _find_gaps(tables, blocks, masks, knowledge, hands):  # type: ignore[no-untyped-def]
    """Search for a gap at each of B blocks of rules: a hand that fits no rule.

    Return the card bit mask (B,) of a hand for each block, 0 where no gap was found. The hands are
    tested in one example auction per block. The example is the auction with the fewest passes
    before the opening bid, among those that `_make_calls` builds and to which the block applies.

    tables: the compiled system. knowledge: PublicKnowledge to overwrite.
    blocks: (B,) rows of SystemTables.block.
    masks: (B, L) pattern of calls of each block: a bit mask of allowed calls for each call from the
        opening bid onwards, padded with 0.
    hands: (P,) card bit masks to test.
    """
    found = np.zeros(len(blocks), np.int64)
    fields = np.zeros((len(hands), hand_evaluation.WIDTH), np.int16)
    hand_evaluation.evaluate(hands, fields)
    contradictions = np.zeros(len(hands), np.int64)
    for k in range(len(blocks)):
        for passes in range(4):
            public.open_auction(knowledge, 0, 0)
            contradictions[:] = 0
            if not _make_calls(tables, knowledge, masks[k], passes, fields, contradictions):
                continue
            public.update_view(knowledge)
            if rule_matching.block_applies(tables, blocks[k], knowledge):
                found[k] = _hand_without_call(tables, knowledge, hands, fields, contradictions)
                break
    return found


@njit(cache=True)
def _make_calls(tables, knowledge, masks, passes, fields, contradictions):  # type: ignore[no-untyped-def]
    """Build an example auction that matches an auction pattern; return whether one was found.

    The auction begins with `passes` passes. Then it has one legal call from each mask. Add to
    `contradictions` (P,) the number of these calls that the seat to call next has made and that a
    hand would not make.

    tables: the compiled system. knowledge: PublicKnowledge of a new auction, updated in place.
    masks: (L,) the pattern: a bit mask of allowed calls for each call, padded with 0. fields:
    (P, H) features of the hands.
    """
    auction = knowledge.auction
    length = passes
    for mask in masks:
        length += mask != 0
    for step in range(passes + len(masks)):
        mask = 1 << PASS if step < passes else masks[step - passes]
        if mask == 0:
            break
        chosen = -1
        for call in range(38):  # the lowest legal call
            if (mask >> call) & 1 and auction_rules.is_legal_call(auction, call):
                chosen = call
                break
        if (mask >> PASS) & 1 and auction[LAST_BID] >= 0:
            chosen = PASS  # prefer a pass, which shows the least
        if chosen < 0 or auction[CALL_COUNT] >= 60:
            return False
        if (length - step) % 4 == 0:
            public.update_view(knowledge)
            rule_matching.add_contradictions(tables, knowledge, fields, chosen, contradictions)
        hear_call(tables, knowledge, chosen)
    return True


@njit(cache=True)
def _hand_without_call(tables, knowledge, hands, fields, contradictions):  # type: ignore[no-untyped-def]
    """Return a hand of the seat to call that fits no rule in this auction, or 0 if none is found.

    Only hands that make the seat's earlier calls are tested, at most MAX_TRIED of them.

    tables: the compiled system. knowledge: PublicKnowledge of the auction. hands: (P,) card bit
    masks. fields: (P, H) features of these hands from hand_evaluation. contradictions: (P,) number
    of the seat's earlier calls that a hand does not make.
    """
    tried = 0
    for k in range(len(hands)):
        if contradictions[k] > 0:
            continue
        _, _, row = match_rules(tables, knowledge, fields[k], NO_CALL)
        if row == NO_RULE:
            return hands[k]
        tried += 1
        if tried == MAX_TRIED:
            break
    return 0
