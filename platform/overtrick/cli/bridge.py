"""Commands `overtrick bridge ...`: explain and suggest calls, read boards, show deals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer import Argument, Option

from overtrick.cli import (
    arguments,
    command_group,
    command_moved_to,
    console,
    print_result,
    say,
    show,
)
from overtrick.core import UserError
from overtrick.reports import tables

group: typer.Typer = command_group(
    "bridge",
    "Bridge",
    "Play matches, host tables for programs, explain and suggest bids, read boards, show hands.",
)

HAND = re.compile(r"[^./ ]*(\.[^./ ]*){3}")  # four suits with dots between them
Dealer = Annotated[str, Option(help="Dealer: N, E, S or W.")]
Vulnerable = Annotated[str, Option(help="Vulnerable side: None, NS, EW or All.")]


def _dealer_and_vulnerability(dealer: str, vulnerable: str) -> tuple[int, int]:
    """Return the seat number of the dealer and the index of the vulnerability in VULNERABILITIES.

    Raises UserError for an unknown name.
    """
    from overtrick.games.bridge.cards import SEATS
    from overtrick.games.bridge.contract_results import VULNERABILITIES

    if dealer not in tuple(SEATS):
        raise UserError(f"--dealer is {', '.join(SEATS)}, not '{dealer}'")
    if vulnerable not in VULNERABILITIES:
        raise UserError(f"--vulnerable is {', '.join(VULNERABILITIES)}, not '{vulnerable}'")
    return SEATS.index(dealer), VULNERABILITIES.index(vulnerable)


@command_moved_to(group)
def explain(
    auction: Annotated[str, Argument(help='Calls, such as "1N P 2D P".')],
    system: Annotated[str, Option(help="Bidding system of the dealer's side.")] = "natural",
    against: Annotated[str | None, Option(help="Bidding system of the other side.")] = None,
    dealer: Dealer = "N",
    vulnerable: Vulnerable = "None",
    as_json: arguments.Json = False,
) -> None:
    """Explain in words what each call of an auction shows.

    A call that shows several kinds of hands has a line for each, at most four. The last may tell
    how some players stretch the call. Calls that players alert are marked.
    """
    from overtrick.games.bridge import auction_rules as rules
    from overtrick.games.bridge.system import auction_simulation
    from overtrick.games.bridge.system.explanation import describe_meaning, explanation_lines
    from overtrick.games.bridge.system.loader import load

    calls = rules.parse_calls(auction)
    rules.check_auction(calls, done=False)
    first, vulnerability = _dealer_and_vulnerability(dealer, vulnerable)
    ours, theirs = load(system), load(against or system)
    pairs = (ours, theirs) if first % 2 == 0 else (theirs, ours)
    meanings = auction_simulation.call_meanings(calls, first, vulnerability, *pairs)
    explained = []
    for call, meaning in zip(auction.split(), meanings, strict=True):
        first_line, *others = lines = explanation_lines(meaning)
        show(f"{call:>4}  {first_line}")
        for line in others:
            show(f"{'or':>9} {line}")
        explained.append({"call": call, "meaning": describe_meaning(meaning), "lines": lines})
    print_result(as_json, system=system, calls=explained)


def _bidder_hand_auction(words: Sequence[str]) -> tuple[str, str, str]:
    """Return bidder, hand and auction of the words [BIDDER] HAND [AUCTION].

    The default bidder is the champion of the auction. Raises UserError for other words.
    """
    from overtrick.evaluation.bidders import default_bidder

    place = next((k for k, word in enumerate(words[:2]) if HAND.fullmatch(word)), None)
    if place is None or len(words) > place + 2:
        raise UserError(
            "suggest takes [BIDDER] HAND [AUCTION]: a hand is like AQ42.K5.QT93.K76, the auction "
            'one word in quotes, like "1N P"'
        )
    bidder = words[0] if place else default_bidder()
    return bidder, words[place], (*words[place + 1 :], "")[0]


@command_moved_to(group)
def suggest(
    words: Annotated[
        list[str],
        Argument(
            metavar="[BIDDER] HAND [AUCTION]",
            help="A bidding system, champion:NAME, run or model folder (default: a champion); a "
            'hand, spades first, such as AQ42.K5.QT93.K76; the calls so far, such as "1N P".',
        ),
    ],
    against: Annotated[str, Option(help="Opponents: a bidding system or model.")] = "natural",
    dealer: Dealer = "N",
    vulnerable: Vulnerable = "None",
    as_json: arguments.Json = False,
) -> None:
    """List the calls that a bidder considers with a hand, and their meanings.

    Each call of a trained bidder has its probability under the bidder's policy and its expected
    IMPs against par. For a bidding system, the call of its rules comes first, with the rule; then
    all other calls for which the system has rules in this auction.
    """
    from overtrick.evaluation import bidders
    from overtrick.games.bridge import auction_rules as rules
    from overtrick.games.bridge.cards import parse_hand
    from overtrick.games.bridge.system import auction_simulation

    bidder, hand, auction = _bidder_hand_auction(words)
    calls = rules.parse_calls(auction)
    if calls:
        rules.check_auction(calls, done=False)
    side, other = (bidders.load_side(each) for each in (bidder, against))
    first, vulnerability = _dealer_and_vulnerability(dealer, vulnerable)
    own = (side.system, other.system)
    pairs = own if (first + len(calls)) % 2 == 0 else own[::-1]
    candidates = []
    for each in bidders.rank_calls(side, other, calls, hand, first, vulnerability):
        meanings = auction_simulation.explain_calls(
            [*calls, each.call], first, vulnerability, *pairs
        )
        candidates.append(
            {
                "call": rules.CALLS[each.call],
                "probability": each.probability,
                "imps": each.imps,
                "meaning": meanings[-1],
            }
        )
    if side.calls is None:
        cards = sum(1 << card for card in parse_hand(hand))
        rule = auction_simulation.rule_for_hand(cards, calls, first, vulnerability, *pairs)
        for each_candidate in candidates:
            each_candidate["rule"] = None
        candidates[0]["rule"] = "no rule" if rule is None else rule.name
    title = f"{side.name} with {hand} after {auction or 'nothing'}"
    show(tables.plain(candidates, title))
    print_result(as_json, bidder=side.name, hand=hand, auction=auction, candidates=candidates)


@command_moved_to(group)
def agreement(
    system: Annotated[str, Argument(help="A bidding system by name, or its file.")],
    file: arguments.BoardsFile,
    pairs: Annotated[str | None, Option(help="Only calls of pairs with this system.")] = None,
    kind: Annotated[str | None, Option(help="Only boards of this kind, e.g. human.")] = None,
    against: Annotated[
        str | None, Option(help="With --pairs: bidding system of all other pairs.")
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Compute the share of recorded calls that a bidding system also makes.

    A second table tests how well the system interprets the recorded calls. It shows how often a
    hand satisfies the meanings of its own calls, and the width of the range of high-card points
    that these meanings allow; then how often it is within a line that `overtrick bridge explain`
    prints for the call, and how many values of high-card points these lines contain.
    """
    from overtrick.datasets import board_files
    from overtrick.evaluation import system_agreement
    from overtrick.games.bridge.system.loader import load

    if against is not None and pairs is None:
        raise UserError("--against needs --pairs: name the pairs that play the first system")
    rules, others = load(system), None if against is None else load(against)
    with console.status(Text(f"reading {file}")):
        found = board_files.load(file)
        auctions = system_agreement.select_auctions(found.boards, pairs, kind)
    for problem in found.problems:
        say(problem)
    followed = system_agreement.follow_system(rules, auctions, others)
    shares = system_agreement.agreement_shares(auctions, followed)
    with console.status(Text("explaining the calls")):
        explained = system_agreement.explain_recorded(rules, auctions, others)
    meanings = system_agreement.meaning_table(rules, auctions, followed, explained)
    only = "".join(f", {each}" for each in (kind, pairs) if each)
    show(f"{system} on {len(auctions.calls)} auctions of {file}{only}")
    rows = [
        {"calls": name, "agree": shares[name], "without passes": shares[f"{name}_without_passes"]}
        for name in ("opening", "response", "all")
    ]
    show(tables.plain(rows, "share of the recorded calls that the system also makes"))
    show(tables.plain(meanings, "accuracy of the meanings of calls, by type"))
    counts = {"boards": len(auctions.calls), "left_out": len(found.problems)}
    chosen = {"system": system, "pairs": pairs, "kind": kind, "against": against}
    print_result(as_json, **chosen, **counts, **shares, meanings=meanings)


@group.command()
def card(
    system: Annotated[str, Argument(help="A bidding system by name, or its file.")],
    out: Annotated[Path | None, Option(help="Write the card to this .md file.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Print the convention card of a bidding system as Markdown, made from its rules."""
    from overtrick.core.files import check_output, write_text
    from overtrick.games.bridge.system.convention_card import convention_card
    from overtrick.games.bridge.system.loader import load

    if out is not None:
        check_output(out, ".md")
    page = convention_card(load(system))
    if out is None:
        show(page)
    else:
        write_text(out, page)
        show(f"wrote {out}")
    print_result(as_json, system=system, path=None if out is None else str(out))


@group.command()
def check(
    system: Annotated[str, Argument(help="A bidding system by name, or its file.")],
    deals: Annotated[
        int, Option(min=1, max=arguments.MOST, help="Random deals, of four hands each.")
    ] = 25_000,
    solved: Annotated[
        Path | None,
        Option(help="A .parquet file of boards with double-dummy tables, to score contracts."),
    ] = None,
    seed: arguments.Seed = 0,
    as_json: arguments.Json = False,
) -> None:
    """Bid random deals by a system at all four seats, and report what should not happen.

    The report lists games and slams that are not bid, forcing bids that are passed, and auctions in
    which hands have no rule. A hand without a rule passes, or makes the cheapest bid of a shown
    suit if it must bid. With --solved, contracts are also compared with par. Boards of that file
    that one side alone bid are bid again by the system, and the contracts compared.
    """
    from numpy.random import default_rng

    from overtrick.datasets import board_files
    from overtrick.evaluation import system_check
    from overtrick.games.bridge.system.loader import load

    rules = load(system)
    if solved is not None:  # a file that cannot be used is refused before the long work
        recorded = board_files.load(solved)
        for problem in recorded.problems:
            say(problem)
        solved_deals = system_check.solved_deals(recorded.boards)
    with console.status(Text(f"bidding {deals} deals")) as status:
        found = system_check.check_system(
            rules, deals, default_rng(seed),
            progress=lambda done: status.update(Text(f"bid {done} of {deals} deals")),
        )  # fmt: skip
    rows = [
        {"figure": meaning, "value": found.figures[name]}
        for name, meaning in system_check.FIGURES.items()
    ]
    show(tables.plain(rows, f"{rules.name} at all four seats"))
    for kind, title in system_check.FINDINGS.items():
        if places := [each._asdict() for each in found.findings if each.kind == kind]:
            columns = [{k: v for k, v in each.items() if k != "kind"} for each in places]
            show(tables.plain(columns, title))
    findings = [each._asdict() for each in found.findings]
    result: dict[str, Any] = {**found.figures, "findings": findings}
    if solved is not None:
        scored = system_check.par_result(rules, solved_deals)
        show(tables.plain([scored], f"contracts at double-dummy tricks, {solved}"))
        rebid = system_check.one_sided_result(rules, recorded.boards)
        show(tables.plain([rebid], "boards that one side alone bid: IMPs against its contract"))
        result |= {"solved": scored, "one_sided": rebid}
    print_result(as_json, system=rules.name, **result)


@command_moved_to(group)
def boards(
    file: arguments.BoardsFile,
    to: Annotated[Path | None, Option(help="Write valid boards: .pbn, .lin or .tsv.")] = None,
    figure: Annotated[Path | None, Option(help="Draw the statistics to this .png file.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Read bridge boards from a file, report invalid boards, and count the valid ones.

    The statistics count dealers, opening bids, vulnerability and auctions. A line counts the boards
    with names, rooms, alerts, commentary and tables of results.
    """
    from overtrick.core.files import check_output
    from overtrick.datasets import board_files
    from overtrick.reports import bar_charts, figures

    if figure is not None:
        check_output(figure, ".png")
    if to is not None:
        check_output(to, *board_files.WRITTEN_ENDINGS)
    with console.status(Text(f"reading {file}")):
        found = board_files.load(file)
        statistics = board_files.statistics(found.boards)
    if to is not None:
        board_files.save(to, found.boards)
    for problem in found.problems:
        say(problem)
    left_out = f", {len(found.problems)} left out" if found.problems else ""
    show(f"{file}: {len(found.boards)} boards{left_out}")
    annotations = board_files.count_annotations(found.boards)
    if any(annotations.values()):
        show("boards with " + ", ".join(f"{name}: {n}" for name, n in annotations.items()))
    panels = board_files.panels(statistics)
    for title, counts in panels.items():
        total = max(sum(counts.values()), 1)
        shares = "  ".join(f"{name} {count / total:.1%}" for name, count in counts.items())
        show(f"{title}: {shares or 'none'}")
    if statistics["mean_length"] is not None:
        mean, deviation = statistics["mean_length"], statistics["length_deviation"]
        show(f"mean length {mean:.2f} ± {deviation:.2f} calls")
    if figure is not None:
        figure.absolute().parent.mkdir(parents=True, exist_ok=True)
        figures.save_png(bar_charts.shares(panels), figure)
    result = {"path": str(to or file), "rows": len(found.boards), "problems": found.problems}
    print_result(as_json, **result, statistics=statistics, annotations=annotations)


@command_moved_to(group)
def hands(
    declarer: Annotated[str, Argument(help=f"{arguments.PLAYER}.")],
    options: arguments.GameOptions = None,
    against: Annotated[str, Option(help="Defenders: a player, run or model.")] = "rules",
    worlds: Annotated[
        int, Option(min=0, max=arguments.MOST, help="Deals per decision of PIMC; 0: no search.")
    ] = 0,
    boards: Annotated[int, Option(min=0, max=arguments.MOST, help="Deals that are printed.")] = 1,
    deals: Annotated[
        int, Option(min=1, max=arguments.MOST, help="Deals from which the style is measured.")
    ] = 200,
    seed: arguments.Seed = 0,
    letters: arguments.Letters = False,
    as_json: arguments.Json = False,
) -> None:
    """Print deals of Mini-Bridge with a declarer's card play; a star marks the winner of a trick.

    A table shows how often the declarer follows common rules of thumb of card play.
    """
    from overtrick.config.job_file import GameChoice
    from overtrick.config.overrides import apply_overrides
    from overtrick.games import registry
    from overtrick.storage import locate
    from overtrick.studies.cardplay_style import study_style

    choice = GameChoice(name="minibridge", options=apply_overrides({}, options or []))
    scripted = registry.scripted_players(registry.make(choice.name, **choice.options))
    names = [
        name if name in ("random", *scripted) else str(locate.existing_model(name).absolute())
        for name in (declarer, against)
    ]
    found = study_style(choice, names[0], names[1], worlds, boards, deals, seed, not letters)
    for hand in found.hands:
        show(f"{hand}\n")
    show(tables.plain(found.style, f"{declarer} against {against}, {deals} deals"))
    print_result(as_json, hands=found.hands, style=found.style)
