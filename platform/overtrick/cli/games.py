"""Commands about games: solve, best response, what there is, and what is worked out once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from overtrick.cli import Json, app, people, result
from overtrick.core import UserError, nearest
from overtrick.reports import tables

GameName = Annotated[str, typer.Argument(metavar="GAME", help="A game of `overtrick list`.")]


@app.command()
def solve(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="As `overtrick list` has it, or openspiel/NAME.")
    ],
    plan: Annotated[str, typer.Option(help="A plan of `overtrick list`.")] = "cfr+",
    iterations: Annotated[
        int, typer.Option(min=1, help="Iterations, every seat once each; lp needs none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="For the plans that sample.")] = 0,
    memory: Annotated[
        float | None, typer.Option(help="GiB that the tree may take; else what is free.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="A folder to keep the strategy in, as a model.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Approach an equilibrium, or find it by the linear program; say how close it is."""
    from overtrick.reports.progress import counting
    from overtrick.studies.exact import solve_game

    exact = plan == "lp"
    with counting(people, game, 1 if exact else iterations) as progress:
        answer = solve_game(game, plan, iterations, seed, memory, save, progress)
    how = "by the linear program" if exact else f"after {iterations} iterations of {plan}"
    people.print(
        f"{game}: exploitability {answer['exploitability']:.3g} {how} "
        f"in {answer['seconds']:.2f} s; values {answer['values']}",
        soft_wrap=True,
    )
    result(as_json, **answer)


@app.command("best-response")
def best_response(
    game: GameName,
    against: Annotated[str, typer.Option(help="A stranger, a run, or the folder of a model.")],
    games: Annotated[int | None, typer.Option(min=4, help="Of a lower bound: 2000.")] = None,
    particles: Annotated[int | None, typer.Option(min=1, help="Of a lower bound: 100.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of a lower bound: 0.")] = None,
    as_json: Json = False,
) -> None:
    """The most that anyone can win against an opponent in each seat; exact if a tree fits.

    Of a larger game (holdem) a lower bound: what a local best response wins in sampled games.
    """
    from overtrick.studies.exact import best_response_to

    asked = {"games": games, "particles": particles, "seed": seed}
    answer = best_response_to(game, against, {k: v for k, v in asked.items() if v is not None})
    said = ", ".join(f"{v:.4f}" for v in answer["values"])
    said += f" by seat, {answer['mean']:.4f} {answer['unit']}"
    if answer["kind"] == "lower bound":
        low, high = answer["interval"]
        said = f"at least {said} (a lower bound, {low:.4f} to {high:.4f} with 95 %)"
    people.print(f"{game} against {against}: {said}", soft_wrap=True)
    result(as_json, **answer)


@app.command()
def generate(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="abstraction, minibridge, deals or examples.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, such as seed=1.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Of hands a round: 6.")] = None,
    samples_scale: Annotated[
        float | None, typer.Option(help="Every sample count times this; 1 is the paper's.")
    ] = None,
    games: Annotated[int | None, typer.Option(min=1, help="Games kept: 100000.")] = None,
    defenders: Annotated[str | None, typer.Option(help="rules or random.")] = None,
    boards: Annotated[int | None, typer.Option(min=1, help="Boards dealt: 1000.")] = None,
    system_ns: Annotated[
        str | None, typer.Option(help="A bidding system, by name or as a file: natural.")
    ] = None,
    system_ew: Annotated[str | None, typer.Option(help="East-West's: natural.")] = None,
    dealer: Annotated[str | None, typer.Option(help="random or rotating.")] = None,
    vulnerability: Annotated[str | None, typer.Option(help="random or rotating.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option(help="Boards with auctions: .parquet, .pbn, .lin, .tsv.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result: 0.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file, or folder, to write.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    as_json: Json = False,
) -> None:
    """Make once what jobs need; stopped, it goes on. abstraction: the card abstraction of limit
    hold'em (--buckets, --samples-scale). minibridge: games that a random declarer won (--games,
    --defenders, strain=trump, lost=true). deals: boards bid by two systems, solved double dummy
    (--boards, --system-ns, --system-ew, --dealer, --vulnerability). examples: the calls of boards
    as what a bidding network learns from (--file, --system-ns, --system-ew, outcomes=true)."""
    from overtrick.datasets import bidding_examples_build, bridge_deals
    from overtrick.datasets import card_abstraction_build as page
    from overtrick.datasets import minibridge_games as minibridge
    from overtrick.reports import progress
    from overtrick.runs import lifecycle

    given: dict[str, Any] = {
        "buckets": buckets, "samples_scale": samples_scale, "games": games, "defenders": defenders,
        "boards": boards, "system_ns": system_ns, "system_ew": system_ew, "dealer": dealer,
        "vulnerability": vulnerability, "file": file,
    }  # fmt: skip
    own = {
        "abstraction": ("buckets", "samples_scale"),
        "minibridge": ("games", "defenders"),
        "deals": ("boards", "system_ns", "system_ew", "dealer", "vulnerability"),
        "examples": ("file", "system_ns", "system_ew"),
    }
    if kind not in own:
        raise UserError(f"cannot generate '{kind}': did you mean '{nearest(kind, own)}'?")
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() - set(own[kind]):
        others = " and ".join(other for other, names in own.items() if name in names)
        raise UserError(f"--{name.replace('_', '-')} is of {others}, not of {kind}")
    asked = [*([] if seed is None else [f"seed={seed}"]), *(overrides or [])]
    if kind != "abstraction":
        asked = [f"{k}={v}" for k, v in given.items() if k != "file"] + asked
    with progress.stages(people) as told:
        if kind == "abstraction":
            asked = [f"buckets={buckets or 6}", *asked]
            path = out or Path(f"abstractions/holdem-{page.plan_of(asked).buckets}.parquet")
            done = page.generate(kind, path, asked, samples_scale or 1.0, workers, told)
        elif kind == "minibridge":
            plan = minibridge.plan_of(asked)
            path = out or Path(f"boards/minibridge-{plan.defenders}-{plan.strain}-{plan.seed}")
            with lifecycle.open_pool(workers) as crew:
                done = minibridge.generate(plan, path, crew, told)
        elif kind == "examples":
            chosen = bidding_examples_build.plan_of(file or (), asked)
            with lifecycle.open_pool(workers) as crew:
                done = bidding_examples_build.generate(
                    chosen, out or bidding_examples_build.place_of(chosen), crew, told
                )
            for problem in done["left_out"]:
                people.print(problem, highlight=False, soft_wrap=True)
        else:
            asked_for = bridge_deals.plan_of(asked)
            with lifecycle.open_pool(workers) as crew:
                done = bridge_deals.generate(
                    asked_for, out or bridge_deals.place_of(asked_for), crew, told
                )
    people.print(f"{done['path']}: {done['rows']} rows in {done['seconds']:.1f} s", soft_wrap=True)
    result(as_json, **done)


@app.command()
def match(
    a: Annotated[
        str, typer.Argument(help="A stranger, a run, the folder of a model, or a bidding system.")
    ],
    b: Annotated[str, typer.Argument(help="Whom it meets.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="The game's options, such as zoo=FOLDER.")
    ] = None,
    game: Annotated[str | None, typer.Option(help="If the players do not tell.")] = None,
    boards: Annotated[int, typer.Option(min=2, help="Each is played from both seats.")] = 250,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    video: Annotated[Path | None, typer.Option(help="A film of one more game, .mp4.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="A .parquet file for the games; see `overtrick view`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Of systems: the boards as an .md or .csv file.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Of systems: boards drawn.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Of systems: Ray workers.")] = 0,
    as_json: Json = False,
) -> None:
    """Two players on the same boards from both seats: what the first one wins a game. Of bidding
    systems, and of networks that bid: IMPs a board at double-dummy tricks."""
    from overtrick.cli.bridge import match_of_bidders
    from overtrick.config.overrides import apply_overrides
    from overtrick.games.bridge.system import loader
    from overtrick.storage import game_records
    from overtrick.studies import duplicate_match
    from overtrick.studies.match import bidder, check_known
    from overtrick.studies.match import match as meet

    if keep is not None:
        game_records.check(keep)

    if duplicate_match.known(a) or duplicate_match.known(b) or (bidder(a) and bidder(b)):
        for name, given in (("options", options), ("--game", game), ("--video", video)):
            if given:
                raise UserError(f"a match of bidding systems takes no {name}")
        match_of_bidders(a, b, boards, seed, out, show, workers, keep, as_json)
        return
    for name, asked in (("--out", out), ("--show", show), ("--workers", workers)):
        if asked:
            raise UserError(
                f"{name} is of a match of bidding systems, and neither {a} nor {b} is one"
            )
    check_known((a, b), loader.system_names())
    asked_for = apply_overrides({}, options or [])
    done = meet(a, b, game, asked_for, boards, seed, video, keep is not None)
    if keep is not None and done.games is not None:
        game_records.save(keep, done.games)
    met = done.meeting
    people.print(
        f"{a} against {b}: {met.mean:.4f} ± {met.standard_error:.4f} {done.unit} a game; of "
        f"{2 * boards} games {met.won:.0f} won, {met.lost:.0f} lost, "
        f"{2 * boards - met.won - met.lost:.0f} drawn",
        soft_wrap=True,
    )
    result(
        as_json, a=a, b=b, game=done.game, boards=boards, mean=met.mean,
        standard_error=met.standard_error, unit=done.unit, won=met.won, lost=met.lost,
    )  # fmt: skip


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The games, their opponents, the trainers, and the runs on this machine."""
    from overtrick.evaluation.reference_opponents import opponent_names
    from overtrick.games import registry
    from overtrick.storage import locate
    from overtrick.training.equilibrium.solve import PLANS
    from overtrick.training.registry import TRAINERS

    known = [
        {
            "name": name,
            "seats": game.seats,
            "actions": list(game.action_names),
            "infosets": game.infosets,  # None: too many to number
            "unit": game.unit,
            "opponents": opponent_names(game),
        }
        for name in registry.names()
        for game in [registry.make(name)]
    ]
    people.print(tables.plain(known))
    people.print(f"solved, not played: {' '.join(registry.solve_only_names())} openspiel/NAME")
    people.print(f"plans of solve: {' '.join(PLANS)}", soft_wrap=True)
    people.print(f"trainers: {' '.join(TRAINERS)}")
    runs = locate.run_names()
    people.print(f"runs in {locate.runs_folder()}: {' '.join(runs) or 'none'}")
    result(as_json, games=known, plans=list(PLANS), trainers=list(TRAINERS), runs=runs)


@app.command("keys")
def keys_(trainer: Annotated[str, typer.Argument(help="Such as meta.")]) -> None:
    """Every key of a trainer's job file, with its default and meaning."""
    from overtrick.config.job_file import keys
    from overtrick.training.registry import JOBS

    if trainer not in JOBS:
        raise UserError(f"unknown trainer '{trainer}': did you mean '{nearest(trainer, JOBS)}'?")
    table = Table("key", "default", "meaning")
    for name, default, meaning in keys(JOBS[trainer]):
        table.add_row(name, default, meaning)
    people.print(table)
