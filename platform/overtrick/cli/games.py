"""Commands about games: solve, best response, what there is, and what is worked out once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from overtrick import tables
from overtrick.cli import Json, app, people, result
from overtrick.core import Refused, nearest

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
    from overtrick.progress import counting
    from overtrick.trainers.exact import solve_game

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
    against: Annotated[str, typer.Option(help="A stranger, or the folder of a model.")],
    games: Annotated[int | None, typer.Option(min=4, help="Of a lower bound: 2000.")] = None,
    particles: Annotated[int | None, typer.Option(min=1, help="Of a lower bound: 100.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of a lower bound: 0.")] = None,
    as_json: Json = False,
) -> None:
    """The most that anyone can win against an opponent in each seat; exact if a tree fits.

    Of a larger game (holdem) a lower bound: what a local best response wins in sampled games.
    """
    from overtrick.trainers.exact import best_response_to

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
    kind: Annotated[str, typer.Argument(metavar="KIND", help="abstraction or minibridge.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value, such as seed=1.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Of hands a round: 6.")] = None,
    samples_scale: Annotated[
        float | None, typer.Option(help="Every sample count times this; 1 is the paper's.")
    ] = None,
    games: Annotated[int | None, typer.Option(min=1, help="Games kept: 100000.")] = None,
    defenders: Annotated[str | None, typer.Option(help="rules or random.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file, or folder, to write.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0 = in this process.")] = 0,
    as_json: Json = False,
) -> None:
    """Make once what jobs need; stopped, it goes on. abstraction: the card abstraction of limit
    hold'em (--buckets, --samples-scale). minibridge: games that a random declarer won (--games,
    --defenders, strain=trump, lost=true)."""
    from overtrick import progress, run
    from overtrick.trainers import boards
    from overtrick.trainers import generate as page

    own: dict[str, dict[str, Any]] = {
        "abstraction": {"buckets": buckets, "samples_scale": samples_scale},
        "minibridge": {"games": games, "defenders": defenders},
    }
    if kind not in own:
        raise Refused(f"cannot generate '{kind}': did you mean '{nearest(kind, own)}'?")
    for other in own.keys() - {kind}:
        for name, value in own[other].items():
            if value is not None:
                raise Refused(f"--{name.replace('_', '-')} is of {other}, not of {kind}")
    asked = list(overrides or [])
    with progress.stages(people) as told:
        if kind == "abstraction":
            asked = [f"buckets={buckets or 6}", *asked]
            path = out or Path(f"abstractions/holdem-{page.plan_of(asked).buckets}.parquet")
            done = page.generate(kind, path, asked, samples_scale or 1.0, workers, told)
        else:
            plan = boards.plan_of([f"{k}={v}" for k, v in own[kind].items() if v] + asked)
            path = out or Path(f"boards/minibridge-{plan.defenders}-{plan.strain}-{plan.seed}")
            with run.crew_of(workers) as crew:
                done = boards.generate(plan, path, crew, told)
    people.print(f"{done['path']}: {done['rows']} rows in {done['seconds']:.1f} s", soft_wrap=True)
    result(as_json, **done)


@app.command()
def match(
    a: Annotated[str, typer.Argument(help="A stranger, a run, or the folder of a model.")],
    b: Annotated[str, typer.Argument(help="Whom it meets.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="The game's options, such as zoo=FOLDER.")
    ] = None,
    game: Annotated[str | None, typer.Option(help="If the players do not tell.")] = None,
    boards: Annotated[int, typer.Option(min=2, help="Each is played from both seats.")] = 250,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    video: Annotated[Path | None, typer.Option(help="A film of one more game, .mp4.")] = None,
    as_json: Json = False,
) -> None:
    """Two players on the same boards from both seats: what the first one wins a game."""
    from overtrick.config import overridden
    from overtrick.match import match as meet

    done = meet(a, b, game, overridden({}, options or []), boards, seed, video)
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
    from overtrick import games, run
    from overtrick.config import GameChoice, overridden
    from overtrick.trainers.shown import shown

    choice = GameChoice(name="minibridge", options=overridden({}, options or []))
    known = games.scripted_players(games.make(choice.name, **choice.options))
    names = [
        who if who in ("random", *known) else str(run.model_of(who).absolute())
        for who in (declarer, against)
    ]
    found = shown(choice, names[0], names[1], worlds, boards, deals, seed, not letters)
    for hand in found.hands:
        people.print(hand + "\n", highlight=False)
    people.print(tables.plain(found.style, f"{declarer} against {against}, {deals} deals"))
    result(as_json, hands=found.hands, style=found.style)


@app.command()
def boards(
    file: Annotated[Path, typer.Argument(help="A .pbn or .lin file.")],
    to: Annotated[Path | None, typer.Option(help="Write the sound ones to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Read bridge boards, say which are not sound and why, and write the others as PBN or LIN."""
    from overtrick.games.bridge import records

    found = records.load(file)
    if to is not None:
        records.save(to, found.boards)
    for problem in found.problems:
        people.print(problem, highlight=False, soft_wrap=True)
    left_out = f", {len(found.problems)} left out" if found.problems else ""
    people.print(f"{file}: {len(found.boards)} boards{left_out}", soft_wrap=True)
    result(as_json, path=str(to or file), rows=len(found.boards), problems=found.problems)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The games, their opponents, the trainers, and the runs on this machine."""
    from overtrick import games, run
    from overtrick.trainers import TRAINERS
    from overtrick.trainers.solve import PLANS
    from overtrick.trainers.strangers import names

    known = [
        {
            "name": name,
            "seats": game.seats,
            "actions": list(game.action_names),
            "infosets": game.infosets,  # None: too many to number
            "unit": game.unit,
            "opponents": names(game),
        }
        for name in games.names()
        for game in [games.make(name)]
    ]
    people.print(tables.plain(known))
    people.print(f"solved, not played: {' '.join(games.judged())} openspiel/NAME")
    people.print(f"plans of solve: {' '.join(PLANS)}", soft_wrap=True)
    runs = sorted(p.parent.name for p in run.home().glob("*/job.json"))
    people.print(f"trainers: {' '.join(TRAINERS)}")
    people.print(f"runs in {run.home()}: {' '.join(runs) or 'none'}")
    result(as_json, games=known, plans=list(PLANS), trainers=list(TRAINERS), runs=runs)


@app.command("keys")
def keys_(trainer: Annotated[str, typer.Argument(help="Such as meta.")]) -> None:
    """Every key of a trainer's job file, with its default and meaning."""
    from overtrick.config import keys
    from overtrick.trainers import JOBS

    if trainer not in JOBS:
        raise Refused(f"unknown trainer '{trainer}': did you mean '{nearest(trainer, JOBS)}'?")
    table = Table("key", "default", "meaning")
    for name, default, meaning in keys(JOBS[trainer]):
        table.add_row(name, default, meaning)
    people.print(table)
