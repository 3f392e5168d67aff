"""Match the rules of a bidding system: choose the call for a hand, or interpret a given call.

In all kernels, `tables` is the compiled system (compiler.SystemTables), and `knowledge` is the
auction so far with what its calls have shown (public_knowledge.PublicKnowledge).
"""

from __future__ import annotations

from numba import njit

from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import CALL_COUNT, DOUBLE, NEXT_SEAT, PASS, is_legal_call
from overtrick.games.bridge.cards import NOTRUMP
from overtrick.games.bridge.system import compiler
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.compiler import ADDED, FIELD, HEARD, HIGHEST, LOWEST, RARE
from overtrick.games.bridge.system.hand_evaluation import HCP, LENGTH
from overtrick.games.bridge.system.hand_terms import UNBOUNDED
from overtrick.games.bridge.system.public_knowledge import AGREED, LIMITS, OPENED, SHOWN, VIEW

NO_RULE = -1
NO_CALL = -1
MUST_BID, LAST_OURS, PASSES = VIEW["must bid"], VIEW["last ours"], VIEW["passes"]


@njit(cache=True)
def hear_call(tables, knowledge, call):  # type: ignore[no-untyped-def]
    """Interpret a legal call according to the caller's system, and record it in `knowledge`.

    Return the row of SystemTables.rule that interprets the call, or NO_RULE.

    tables: the compiled system of the caller. knowledge: PublicKnowledge of the auction.
    """
    public.update_view(knowledge)
    _, _, row = match_rules(tables, knowledge, knowledge.call_lo[0], call)
    update_knowledge(tables, knowledge, call, row)
    return row


@njit(cache=True)
def match_rules(tables, knowledge, hand, wanted):  # type: ignore[no-untyped-def]
    """Choose the call for a hand if `wanted` is NO_CALL; otherwise interpret the call `wanted`.

    Return three values:

    - the call: the chosen call, or `wanted`. The first rule in order of precedence that the hand
      fits chooses the call; if the hand fits no rule, it is `default_call`.
    - the row in SystemTables.rule of the rule that chose the call. If `wanted` is a call, it is
      instead the row of the first rule that can apply to `wanted` in this auction.
    - the row of the rule by which the other players interpret the call. It is the first rule for
      the call without the mark `heard`, or the first of all if every rule for the call has this
      mark. A rule marked `heard` is for interpretation only: it never chooses a call.

    Both rows are NO_RULE if there is no rule.

    Also write the ranges of hand features that the call describes to `knowledge.call_lo` and
    `knowledge.call_hi`, as `_combine_ranges` computes them.

    tables: the compiled system of the caller. knowledge: PublicKnowledge of the auction, after
    `update_view`. hand: (H,) features of the hand; not used if `wanted` is a call.
    """
    view, matched, at = knowledge.seat_view, knowledge.matched, _block_list_index(knowledge)
    knowledge.named[:] = -1
    found, first, priority, count, closed = NO_CALL, NO_RULE, -1, 0, False
    for k in range(tables.starts[at], tables.starts[at + 1]):
        block = tables.block[tables.listed[k]]
        if block[compiler.PRIORITY] != priority:
            if found >= 0 or closed:
                break
            priority, count = block[compiler.PRIORITY], 0
        if not block_applies(tables, tables.listed[k], knowledge):
            continue
        closed = closed or block[compiler.ONLY] == 1
        before, count = count, _add_applicable(tables, knowledge, block, wanted, count)
        for at_rule in range(before, count):
            if found < 0:
                rule = tables.rule[matched[at_rule, 0]]
                if wanted >= 0 or (not rule[HEARD] and _hand_fits(tables, rule, hand, view)):
                    first, found = matched[at_rule]
    if found < 0:
        knowledge.call_lo[:], knowledge.call_hi[:] = LIMITS[0], LIMITS[1]
        return default_call(knowledge) if wanted < 0 else wanted, NO_RULE, NO_RULE
    return found, first, _combine_ranges(tables, knowledge, matched[:count], found)


@njit(cache=True)
def default_call(knowledge):  # type: ignore[no-untyped-def]
    """Return the call of a hand that fits no rule: a pass, unless the side must go on.

    If it must, the call is a double where a pass would end the auction in the opponents' contract,
    or else the cheapest bid in a suit of which either partner promised four cards, or else the
    cheapest notrump, up to 7NT.

    knowledge: PublicKnowledge of the auction, after `update_view`.
    """
    auction, view = knowledge.auction, knowledge.seat_view
    if not view[MUST_BID]:
        return PASS
    if not view[LAST_OURS] and is_legal_call(auction, DOUBLE) and view[PASSES] == 2:
        return DOUBLE
    seat, last = auction[NEXT_SEAT], auction[auction_rules.LAST_BID]
    mine = knowledge.lo[public.PROMISED, seat]
    partners = knowledge.lo[public.PROMISED, (seat + 2) % 4]
    for call in range(last + 1, min(last + 6, PASS)):
        suit = LENGTH + call % 5
        if call % 5 < 4 and max(mine[suit], partners[suit]) >= 4:
            return call
    notrump = last + 1 + (NOTRUMP - last - 1) % 5
    return notrump if notrump < PASS else PASS


@njit(cache=True)
def add_contradictions(tables, knowledge, hands, recorded, contradictions):  # type: ignore[no-untyped-def]
    """Add 1 to `contradictions` (W,), in place, for each hand that does not make a recorded call.

    The calls are those of `match_rules`; the applicable rules are found once for all hands.

    tables: the compiled system of the caller. knowledge: PublicKnowledge of the auction, after
    `update_view`. hands: (W, H) features of possible hands of the caller. recorded: a legal call.
    """
    view, matched, at = knowledge.seat_view, knowledge.matched, _block_list_index(knowledge)
    knowledge.named[:] = -1
    priority, count, closed = -1, 0, False
    for k in range(tables.starts[at], tables.starts[at + 1]):
        block = tables.block[tables.listed[k]]
        if block[compiler.PRIORITY] != priority:
            if closed:
                break
            priority = block[compiler.PRIORITY]
        if block_applies(tables, tables.listed[k], knowledge):
            closed = closed or block[compiler.ONLY] == 1
            count = _add_applicable(tables, knowledge, block, NO_CALL, count)
    default = default_call(knowledge)
    for row in range(len(hands)):
        call = default
        for at_rule in range(count):
            rule = tables.rule[matched[at_rule, 0]]
            if not rule[HEARD] and _hand_fits(tables, rule, hands[row], view):
                call = matched[at_rule, 1]
                break
        contradictions[row] += call != recorded


@njit(cache=True)
def count_calls(tables, knowledge, hands, made):  # type: ignore[no-untyped-def]
    """Add to `made` (38,) how many hands make each call by a rule, in place.

    tables: the compiled system of the seat to call. knowledge: PublicKnowledge of the auction,
    after `update_view`. hands: (W, H) features of hands.
    """
    for row in range(len(hands)):
        call, fit, _ = match_rules(tables, knowledge, hands[row], NO_CALL)
        if fit != NO_RULE:
            made[call] += 1


@njit(cache=True)
def _block_list_index(knowledge):  # type: ignore[no-untyped-def]
    """Return the index in SystemTables.starts for the opening bid and the number of calls since."""
    opening, length = compiler.OPENINGS - 1, 0
    opened = knowledge.context[OPENED]
    if opened >= 0:
        opening = knowledge.calls[opened]
        length = min(knowledge.auction[CALL_COUNT] - opened, compiler.LENGTH_CLASSES - 1)
    return opening * compiler.LENGTH_CLASSES + length


@njit(cache=True)
def _add_applicable(tables, knowledge, block, wanted, count):  # type: ignore[no-untyped-def]
    """Append the applicable rules of a block to `knowledge.matched`; return the number in it now.

    A call that has rules of a higher priority gets no more. wanted: take only rules for this call,
    unless it is NO_CALL. count: number of rules in `knowledge.matched` before.
    """
    auction, priority = knowledge.auction, block[compiler.PRIORITY]
    for row in range(block[compiler.RULES], block[compiler.RULES_END]):
        rule = tables.rule[row]
        call = _call_of_rule(rule, auction[auction_rules.LAST_BID])
        if call < 0 or (wanted >= 0 and call != wanted):
            continue
        named = knowledge.named[call]
        if (named >= 0 and named != priority) or not is_legal_call(auction, call):
            continue
        first, end = rule[compiler.IF], rule[compiler.IF_END]
        if not _conditions_hold(tables, first, end, knowledge.seat_view):
            continue
        knowledge.named[call] = priority
        knowledge.matched[count, 0], knowledge.matched[count, 1] = row, call
        count += 1
    return count


@njit(cache=True)
def _combine_ranges(tables, knowledge, matched, made):  # type: ignore[no-untyped-def]
    """Compute a call's range of each hand feature: the hull of the ranges of its rules.

    Write the lower ends to `knowledge.call_lo` (2, H) and the upper ends to `knowledge.call_hi`.
    The two rows are two interpretations of the call:

    - Row 0, PROMISED, omits rules marked `heard`, which never choose the call.
    - Row 1, SHOWN, omits rules marked `rare`, whose hands are too rare to expect.

    A row that would omit all rules omits none. Return the row in SystemTables.rule of the first
    rule included in PROMISED.

    matched: (n, 2) row in SystemTables.rule and call of each rule that applies. made: the call.
    """
    knowledge.call_lo[:], knowledge.call_hi[:] = LIMITS[1], LIMITS[0]
    some_not_heard = some_not_rare = False
    for row, call in matched:
        if call == made:
            some_not_heard = some_not_heard or tables.rule[row, HEARD] == 0
            some_not_rare = some_not_rare or tables.rule[row, RARE] == 0
    first = NO_RULE
    for row, call in matched:
        if call == made:
            promised = tables.rule[row, HEARD] == 0 or not some_not_heard
            shown = tables.rule[row, RARE] == 0 or not some_not_rare
            if promised and first == NO_RULE:
                first = row
            _add_ranges(tables, row, knowledge, promised, shown)
    return first


@njit(cache=True)
def _call_of_rule(rule, last):  # type: ignore[no-untyped-def]
    """Return the call of a rule; NO_CALL if a relative call such as "jump S" exceeds 7NT.

    rule: row of SystemTables.rule. last: the last bid, or -1.
    """
    call, relative = rule[compiler.CALL], rule[compiler.RELATIVE_TO]
    if relative == 0:
        return call
    call = last + 1 + (call - last - 1) % 5 + 5 * (relative - 1)
    return call if call < PASS else NO_CALL


@njit(cache=True)
def block_applies(tables, number, knowledge):  # type: ignore[no-untyped-def]
    """Return whether a block of rules applies: its pattern and conditions match the auction.

    tables: the compiled system. number: row of the block in SystemTables.block. knowledge:
    PublicKnowledge of the auction.
    """
    block, count = tables.block[number], knowledge.auction[CALL_COUNT]
    opened, length = knowledge.context[OPENED], block[compiler.LENGTH]
    if length >= 0 and opened >= 0 and count - opened != length:
        return False
    for k in range(block[compiler.PATTERNS], block[compiler.PATTERNS_END]):
        back = tables.pattern[k, compiler.AGO]
        if back > count:
            return False
        if not (tables.pattern[k, compiler.CALL_MASK] >> knowledge.calls[count - back]) & 1:
            return False
    first, end = block[compiler.HOLDS], block[compiler.HOLDS_END]
    return _conditions_hold(tables, first, end, knowledge.seat_view)


@njit(cache=True)
def _conditions_hold(tables, first, end, view):  # type: ignore[no-untyped-def]
    """Return whether an auction meets all conditions in rows `first` to `end` - 1.

    These are rows of SystemTables.condition. view: features of the auction from the point of view
    of the seat to call, PublicKnowledge.seat_view.
    """
    for k in range(first, end):
        value = view[tables.condition[k, FIELD]]
        if value < tables.condition[k, LOWEST] or value > tables.condition[k, HIGHEST]:
            return False
    return True


@njit(cache=True)
def _hand_fits(tables, rule, hand, view):  # type: ignore[no-untyped-def]
    """Return whether a hand passes all tests of a rule.

    rule: row of SystemTables.rule. hand: (H,) features of the hand. view: features of the auction
    from the point of view of the hand's seat, PublicKnowledge.seat_view.
    """
    for k in range(rule[compiler.TESTS], rule[compiler.TESTS_END]):
        value = hand[tables.test[k, FIELD]]
        if tables.test[k, ADDED] >= 0:
            value += view[tables.test[k, ADDED]]
        if value < tables.test[k, LOWEST] or value > tables.test[k, HIGHEST]:
            return False
    return True


@njit(cache=True)
def rule_ranges(tables, row, knowledge):  # type: ignore[no-untyped-def]
    """Return the ranges of hand features of one rule, (2, H): the lowest and the highest values.

    tables: the compiled system. row: row of the rule in SystemTables.rule. knowledge:
    PublicKnowledge of the auction, after `update_view`.
    """
    ranges = LIMITS.copy()
    for k in range(tables.rule[row, compiler.TESTS], tables.rule[row, compiler.TESTS_END]):
        field, ref = tables.test[k, FIELD], tables.test[k, ADDED]
        least, most = tables.test[k, LOWEST], tables.test[k, HIGHEST]
        shift = knowledge.seat_view[ref] if ref >= 0 else 0
        ranges[0, field] = max(ranges[0, field], least - shift)
        if most < UNBOUNDED:
            ranges[1, field] = min(ranges[1, field], most - shift)
    public.tighten_ranges(ranges[0], ranges[1])
    return ranges


@njit(cache=True)
def _add_ranges(tables, row, knowledge, promised, shown):  # type: ignore[no-untyped-def]
    """Extend a call's ranges of hand features, in place, to include the ranges of one more rule.

    A call has two sets of ranges in `knowledge.call_lo` and `knowledge.call_hi`: promised ranges,
    which the rules for later calls use, and shown ranges, which bidding networks see.

    tables: the compiled system.
    row: row of the rule in SystemTables.rule.
    knowledge: PublicKnowledge of the auction.
    promised: whether to extend the promised ranges.
    shown: whether to extend the shown ranges.
    """
    ranges = rule_ranges(tables, row, knowledge)
    for which in range(2):
        if promised if which == public.PROMISED else shown:
            lo, hi = knowledge.call_lo[which], knowledge.call_hi[which]
            for field in range(len(lo)):
                lo[field] = min(lo[field], ranges[0, field])
                hi[field] = max(hi[field], ranges[1, field])


@njit(cache=True)
def update_knowledge(tables, knowledge, call, row):  # type: ignore[no-untyped-def]
    """Record a call and its meaning in `knowledge`, the PublicKnowledge of the auction.

    `match_rules` must have been called before for the same call. row: row of SystemTables.rule that
    interprets the call, or NO_RULE.
    """
    context, seat = knowledge.context, knowledge.auction[NEXT_SEAT]
    public.record_call(knowledge, call)
    for which in range(2):
        lo, hi = knowledge.lo[which], knowledge.hi[which]
        _narrow_ranges(lo, hi, seat, knowledge.call_lo[which], knowledge.call_hi[which])
    likely = public.LIKELY[knowledge.lo[SHOWN, seat, HCP]]
    knowledge.hi[SHOWN, seat, HCP] = min(knowledge.hi[SHOWN, seat, HCP], likely)
    if call != PASS:
        context[public.FORCING] = -1
    meaning = knowledge.meaning[seat]
    if row < 0:
        meaning[: public.SUIT] = 0
        meaning[public.SUIT] = meaning[public.TRUMPS] = meaning[public.POWER] = -1
        return
    rule = tables.rule[row]
    for k in range(public.MEANING_WIDTH):
        if k != AGREED:
            meaning[k] = rule[compiler.MEANING + k]
    agreed = rule[compiler.MEANING + AGREED]
    if agreed >= 0:
        meaning[AGREED] = knowledge.meaning[(seat + 2) % 4, AGREED] = agreed
    if rule[compiler.FORCES]:
        context[public.FORCING] = seat
    if rule[compiler.TO_GAME]:
        context[public.GAME + seat % 2] = 1


@njit(cache=True)
def _narrow_ranges(known_lo, known_hi, seat, lo, hi):  # type: ignore[no-untyped-def]
    """Update the known ranges of one seat's hand features by its new call, in place.

    Each known range is intersected with the range of the call. If the two are disjoint, the range
    of the call replaces the known range. Then lower the highest possible high-card points of each
    seat, because the points of all seats add up to 40.

    known_lo, known_hi: (4, H) ranges of all seats. lo, hi: (H,) ranges of the new call.
    """
    mine_lo, mine_hi = known_lo[seat], known_hi[seat]
    for field in range(len(lo)):
        least, most = max(mine_lo[field], lo[field]), min(mine_hi[field], hi[field])
        if least > most:  # the calls contradict each other: the later one counts
            least, most = lo[field], hi[field]
        mine_lo[field], mine_hi[field] = least, most
    public.tighten_ranges(mine_lo, mine_hi)
    least = known_lo[0, HCP] + known_lo[1, HCP] + known_lo[2, HCP] + known_lo[3, HCP]
    for each in range(4):  # the pack has 40 high-card points
        left = 40 - least + known_lo[each, HCP]
        known_hi[each, HCP] = min(known_hi[each, HCP], max(left, known_lo[each, HCP]))
