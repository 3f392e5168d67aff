"""Commands `solve`, `best-response`, `list` and `champions`: solve games exactly, list players."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from overtrick.cli import PLAY, app, arguments, console, print_result, show
from overtrick.reports import tables

MANY = 8  # actions of a game; more are counted in `list`, not named


@app.command(rich_help_panel=PLAY)
def solve(
    game: arguments.GameName,
    plan: Annotated[str, Option(help="Algorithm, see `overtrick list`.")] = "cfr+",
    iterations: Annotated[int, Option(min=1, help="Iterations; each updates all seats.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of sampling algorithms.")] = 0,
    memory: Annotated[float | None, Option(help="GiB; default: free memory.")] = None,
    temperature: Annotated[float, Option(help="Temperature of mmd-qre in points.")] = 0.1,
    save: Annotated[
        str | None, Option(help="Save the strategy as a model in this folder or at this URL.")
    ] = None,
    max_minutes: Annotated[
        float | None,
        Option(help="In games evaluated by walks: estimate the time first; refuse above this."),
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Compute or approximate an equilibrium with a solver, and print its exploitability.

    --plan names the solver: lp, and auto on small games, compute an equilibrium by linear
    programming; all other solvers approximate an equilibrium in --iterations iterations. mmd-qre
    approximates the quantal response equilibrium of --temperature instead, and prints the NashConv
    of the game with entropy. auto chooses a solver by the number of information sets or by a trial
    run, and says why.
    """
    from overtrick.reports.progress import counting
    from overtrick.studies.exact_solutions import solve_game

    exact = plan == "lp"
    with counting(console, game, 1 if exact else iterations) as progress:
        answer = solve_game(
            game, plan, iterations, seed, memory, save, progress, temperature, max_minutes
        )
    chosen = str(answer.get("choice", "")).partition(":")[0]
    exact |= chosen == "lp"
    how = "by the linear program" if exact else f"after {iterations} iterations of {plan}"
    show(
        f"{game}: exploitability {answer['exploitability']:.3g} {how} "
        f"in {answer['seconds']:.2f} s; values {answer['values']}"
    )
    if "choice" in answer:
        show(f"chosen: {answer['choice']}")
    if "qre_gap" in answer:
        show(f"NashConv of the game with entropy: {answer['qre_gap']:.3g} points")
    print_result(as_json, **answer)


@app.command("best-response", rich_help_panel=PLAY)
def best_response(
    game: arguments.GameName,
    against: Annotated[str, Option(help=f"{arguments.PLAYER}.")],
    games: Annotated[
        int | None,
        Option(min=4, max=arguments.MOST, help="Games of the bound; see above."),
    ] = None,
    particles: Annotated[
        int | None, Option(min=1, max=arguments.MOST, help="Sampled deals of LBR.")
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Seed of the bound. Default: 0.")] = None,
    workers: arguments.Workers = 0,
    as_json: arguments.Json = False,
) -> None:
    """Compute the best-response value against an opponent in each seat.

    The value is exact if the game tree fits in memory, and in phantom tic-tac-toe, dark hex and
    goofspiel, which are evaluated by walks over all lines of play. For another large game the value
    is a lower bound: the mean payoff of a response over sampled games. In holdem it is the exact
    best response in an abstraction of the hands by their strength. Elsewhere, and with --particles,
    it is a local best response (LBR), which samples this number of deals at each decision. The
    options --games, --particles and --seed are only for the lower bound. --games is the number of
    sampled games, by default 40,000, or 2,000 with LBR. --seed is the random seed. In games
    evaluated by walks, --workers N divides the computation among N Ray workers. After an
    interruption, repeat the command to continue from the finished parts.
    """
    from overtrick.reports.progress import counting
    from overtrick.studies.exact_solutions import best_response_to

    asked = {"games": games, "particles": particles, "seed": seed}
    given = {k: v for k, v in asked.items() if v is not None}
    with counting(console, game, 100) as progress:
        answer = best_response_to(game, against, given, progress, workers)
    values = ", ".join(f"{v:.4f}" for v in answer["values"])
    line = f"{values} by seat, {answer['mean']:.4f} {answer['unit']}"
    if answer["kind"] == "lower bound":
        low, high = answer["interval"]
        line = f"at least {line} (a lower bound, 95 % interval {low:.4f} to {high:.4f})"
    show(f"{game} against {against}: {line}")
    print_result(as_json, **answer)


@app.command(rich_help_panel=PLAY)
def champions(as_json: arguments.Json = False) -> None:
    """List the champions: players that come with the package, with their measured strength.

    champion:NAME stands for one of them in every command and job that takes a player. With --json
    each champion has `command`, which trains it again, and `check`, which measures its figure.
    """
    from overtrick.storage.champions import champions as read_champions

    found = read_champions()
    rows = [
        {
            "name": each.player,
            "game": each.card["game"],
            "measured": each.strength,
            "player": each.card["about"],
        }
        for each in found
    ]
    show(tables.plain(rows))
    listed = [
        {"name": each.name, "command": " && ".join(each.card["commands"]), **each.card}
        for each in found
    ]
    for each in listed:
        del each["commands"]
    print_result(as_json, champions=listed)


@app.command("list", rich_help_panel=PLAY)
def list_(as_json: arguments.Json = False) -> None:
    """List the games with their reference opponents, the trainers, and the runs on this machine."""
    from overtrick.evaluation.reference_opponents import opponent_names
    from overtrick.games import registry
    from overtrick.runs.run_list import list_runs
    from overtrick.storage import locate
    from overtrick.training.equilibrium.solve import SOLVERS
    from overtrick.training.registry import TRAINERS

    runs = [each._asdict() for each in list_runs()]
    games = [
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
    shown = [
        {**row, "actions": len(names) if len(names := row["actions"]) > MANY else names}
        for row in games
    ]
    show(tables.plain(shown))
    show(f"solved, not played: {' '.join(registry.solve_only_names())} openspiel/NAME")
    show(f"plans of solve: {' '.join(SOLVERS)}")
    show(f"trainers: {' '.join(TRAINERS)}")
    if runs:
        show(tables.plain(runs, f"runs in {locate.runs_location()}"))
    else:
        show(f"runs in {locate.runs_location()}: none")
    print_result(
        as_json, games=games, plans=list(SOLVERS), trainers=list(TRAINERS),
        runs=[run["name"] for run in runs], summaries=runs,
    )  # fmt: skip
