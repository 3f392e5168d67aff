"""Commands about bridge: hands played, boards in files, and matches of bidding systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overtrick.cli import Json, app, people, result
from overtrick.core import UserError
from overtrick.reports import tables


@app.command()
def hands(
    declarer: Annotated[str, typer.Argument(help="A stranger, a run, or the folder of a model.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Of minibridge, such as strain=trump.")
    ] = None,
    against: Annotated[str, typer.Option(help="Who defends.")] = "rules",
    worlds: Annotated[
        int,
        typer.Option(min=0, help="It guides a search that imagines so many deals."),
    ] = 0,
    boards: Annotated[int, typer.Option(min=0, help="Deals that are shown.")] = 1,
    deals: Annotated[int, typer.Option(min=1, help="Deals that tell the style.")] = 200,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    letters: Annotated[bool, typer.Option(help="Suits as letters, not signs.")] = False,
    as_json: Json = False,
) -> None:
    """Deals of Mini-Bridge with a declarer's line of play, and how often it keeps to rules of
    thumb; a star marks who takes a trick."""
    from overtrick.config.job_file import GameChoice
    from overtrick.config.overrides import apply_overrides
    from overtrick.games import registry
    from overtrick.runs import lifecycle
    from overtrick.studies.cardplay_style import shown

    choice = GameChoice(name="minibridge", options=apply_overrides({}, options or []))
    known = registry.scripted_players(registry.make(choice.name, **choice.options))
    names = [
        who if who in ("random", *known) else str(lifecycle.find_model(who).absolute())
        for who in (declarer, against)
    ]
    found = shown(choice, names[0], names[1], worlds, boards, deals, seed, not letters)
    for hand in found.hands:
        people.print(hand + "\n", highlight=False)
    people.print(tables.plain(found.style, f"{declarer} against {against}, {deals} deals"))
    result(as_json, hands=found.hands, style=found.style)


@app.command()
def boards(
    file: Annotated[Path, typer.Argument(help="A .parquet, .pbn, .lin or .tsv file.")],
    to: Annotated[
        Path | None, typer.Option(help="Write the sound ones to this .pbn, .lin or .tsv file.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw what the boards are like, as .png.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read bridge boards, say which are not sound and why, and what the others are like: dealers,
    openers, vulnerability, auctions. With --to, write those as PBN, LIN or rows."""
    from overtrick.datasets import board_files
    from overtrick.reports import bar_charts, figures

    if figure is not None and (figure.suffix != ".png" or not figure.absolute().parent.is_dir()):
        raise UserError(f"cannot draw {figure}: name a .png file in a folder that exists")
    with people.status(f"reading {file}"):
        found = board_files.load(file)
        told = board_files.statistics(found.boards)
    if to is not None:
        board_files.save(to, found.boards)
    for problem in found.problems:
        people.print(problem, highlight=False, soft_wrap=True)
    left_out = f", {len(found.problems)} left out" if found.problems else ""
    people.print(f"{file}: {len(found.boards)} boards{left_out}", soft_wrap=True)
    panels = board_files.panels(told)
    for title, entries in panels.items():
        total = max(sum(entries.values()), 1)
        said = "  ".join(f"{name} {n / total:.1%}" for name, n in entries.items())
        people.print(f"{title}: {said or 'none'}", highlight=False, soft_wrap=True)
    if told["mean_length"] is not None:
        people.print(
            f"mean length {told['mean_length']:.2f} ± {told['length_deviation']:.2f} calls"
        )
    if figure is not None:
        figures.save({figure.stem: bar_charts.shares(panels)}, figure.absolute().parent)
    result(
        as_json, path=str(to or file), rows=len(found.boards), problems=found.problems,
        statistics=told,
    )  # fmt: skip


def match_of_bidders(
    a: str, b: str, boards: int, seed: int, out: Path | None, show: int, workers: int,
    keep: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """`overtrick match` of bidding systems, and of networks that bid."""
    from overtrick.evaluation import bidders
    from overtrick.reports.progress import counting
    from overtrick.runs import lifecycle
    from overtrick.storage import game_records
    from overtrick.studies import duplicate_match
    from overtrick.studies.match import bidder, record_of

    if out is not None:
        duplicate_match.check_report(out)
    ours, theirs = (str(bidder(name) or name) for name in (a, b))
    for side in (ours, theirs):
        bidders.load_side(side)  # before Ray starts
    with lifecycle.open_pool(workers) as crew, counting(people, "boards", boards) as progress:
        played = duplicate_match.match(ours, theirs, boards, seed, crew, progress)
    if out is not None:
        duplicate_match.report(played, out, show)
    if keep is not None:
        game_records.save(keep, record_of(played))
    for board in range(min(show, boards)):
        people.print(
            duplicate_match.shown(played, board) + "\n",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    imps = played.boards.imps
    people.print(
        f"{a} against {b}: {played.mean:+.3f} ± {played.standard_error:.3f} IMPs a board; of "
        f"{boards} boards {(imps > 0).sum()} won, {(imps < 0).sum()} lost, "
        f"{(imps == 0).sum()} flat",
        soft_wrap=True,
    )
    result(
        as_json, a=a, b=b, boards=boards, mean=played.mean,
        standard_error=played.standard_error, unit=duplicate_match.UNIT,
    )  # fmt: skip


Dealer = Annotated[str, typer.Option(help="N, E, S or W: who makes the first call.")]
Vulnerable = Annotated[
    str, typer.Option(help="None, NS, EW or All: some calls show more, or less, then.")
]


def _situation(dealer: str, vulnerable: str) -> tuple[int, int]:
    """Dealer and vulnerability as numbers. Raises UserError."""
    from overtrick.games.bridge.cards import SEATS
    from overtrick.games.bridge.contract_results import VULNERABILITIES

    if dealer not in tuple(SEATS):
        raise UserError(f"--dealer is {', '.join(SEATS)}, not '{dealer}'")
    if vulnerable not in VULNERABILITIES:
        raise UserError(f"--vulnerable is {', '.join(VULNERABILITIES)}, not '{vulnerable}'")
    return SEATS.index(dealer), VULNERABILITIES.index(vulnerable)


@app.command()
def explain(
    auction: Annotated[str, typer.Argument(help='Calls, such as "1N P 2D P".')],
    system: Annotated[
        str, typer.Option(help="Of the side that deals; a name or a file.")
    ] = "natural",
    against: Annotated[str | None, typer.Option(help="Of the other side; the same.")] = None,
    dealer: Dealer = "N",
    vulnerable: Vulnerable = "None",
    as_json: Json = False,
) -> None:
    """Say in words what each call of an auction shows."""
    from overtrick.games.bridge import auction_rules as rules
    from overtrick.games.bridge.system import auction_simulation
    from overtrick.games.bridge.system.loader import load

    calls = rules.parse_calls(auction)
    rules.check_auction(calls, done=False)
    first, which = _situation(dealer, vulnerable)
    ours, theirs = load(system), load(against or system)
    pairs = (ours, theirs) if first % 2 == 0 else (theirs, ours)
    told = auction_simulation.explain_calls(calls, first, which, *pairs)
    words = auction.split()
    for call, meaning in zip(words, told, strict=True):
        people.print(f"{call:>4}  {meaning}", highlight=False, soft_wrap=True)
    result(
        as_json, system=system, calls=[
            {"call": call, "meaning": meaning}
            for call, meaning in zip(words, told, strict=True)
        ],
    )  # fmt: skip


@app.command()
def suggest(
    bidder: Annotated[str, typer.Argument(help="A run, or the folder of a model.")],
    hand: Annotated[str, typer.Argument(help="Spades first, such as AQ42.K5.QT93.K76.")],
    auction: Annotated[str, typer.Argument(help='Calls so far, such as "1N P".')] = "",
    against: Annotated[
        str, typer.Option(help="Whom it meets: a system, a run, or the folder of a model.")
    ] = "natural",
    dealer: Dealer = "N",
    vulnerable: Vulnerable = "None",
    as_json: Json = False,
) -> None:
    """What a trained bidder would call with a hand, and why: the calls it thinks of, how likely
    its system makes each, and the IMPs against par that it expects of them."""
    from overtrick.evaluation import bidders
    from overtrick.games.bridge import auction_rules as rules
    from overtrick.runs import lifecycle
    from overtrick.studies.match import bidder as known

    calls = rules.parse_calls(auction)
    if calls:
        rules.check_auction(calls, done=False)
    side = bidders.load_side(str(lifecycle.find_model(bidder)))
    other = bidders.load_side(str(known(against) or against))
    thought = bidders.rank_calls(side, other, calls, hand, *_situation(dealer, vulnerable))
    told = [
        {"call": rules.CALLS[each.call], "probability": each.probability, "imps": each.imps}
        for each in thought
    ]
    people.print(tables.plain(told, f"{side.name} with {hand} after {auction or 'nothing'}"))
    result(as_json, bidder=side.name, hand=hand, auction=auction, candidates=told)


@app.command()
def agreement(
    system: Annotated[str, typer.Argument(help="A bidding system by name, or its file.")],
    file: Annotated[Path, typer.Argument(help="Boards with auctions: .parquet, .pbn, .lin, .tsv.")],
    pairs: Annotated[
        str | None, typer.Option(help="Only calls of pairs that play this, inferred or stated.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only boards of this kind: human.")] = None,
    as_json: Json = False,
) -> None:
    """Which share of recorded calls a system makes too, and how far what a player's calls so far
    show together holds for the hand. Width is how many numbers of honour points bids leave."""
    from overtrick.datasets import board_files
    from overtrick.evaluation import system_agreement as agreed
    from overtrick.games.bridge.system.loader import load

    rules = load(system)
    with people.status(f"reading {file}"):
        found = board_files.load(file)
        told = agreed.select_auctions(found.boards, pairs, kind)
    for problem in found.problems:
        people.print(problem, highlight=False, soft_wrap=True)
    by = agreed.follow_system(rules, told)
    shares, truths = agreed.agreement_shares(told, by), agreed.meaning_table(rules, told, by)
    asked = "".join(f", {each}" for each in (kind, pairs) if each)
    people.print(f"{system} on {len(told.calls)} auctions of {file}{asked}", soft_wrap=True)
    shown = [
        {"calls": name, "agree": shares[name], "without passes": shares[f"{name}_without_passes"]}
        for name in ("opening", "response", "all")
    ]
    people.print(tables.plain(shown, "shares of the calls that the system makes too"))
    people.print(tables.plain(truths, "what the calls show, by type"))
    result(
        as_json, system=system, boards=len(told.calls), pairs=pairs, kind=kind,
        left_out=len(found.problems), **shares, meanings=truths,
    )  # fmt: skip
