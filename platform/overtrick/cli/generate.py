"""Commands `overtrick generate KIND`: build a data set once, as a file that jobs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from overtrick.cli import arguments, command_group, console, print_result, say, show

if TYPE_CHECKING:
    from overtrick.datasets.chunked_build import DatasetConfig

group: typer.Typer = command_group(
    "generate",
    "Data",
    "Generate data for jobs: deals, games, training examples, card abstractions. Run the same "
    "command again to continue an interrupted one.",
)
Values = Annotated[list[str] | None, Argument(help="Further keys, as key=value, such as seed=1.")]
System = Annotated[str | None, Option(help="Bidding system. Default: natural.")]
Bidder = Annotated[
    str | None,
    Option(help="Bidding system, its file, or (solved=true) a model. Default: as recorded."),
]
Order = Annotated[str | None, Option(help="random (the default) or rotating, by board.")]
Out = Annotated[str | None, Option(help="File or folder to write, or its URL in a bucket.")]


@group.command()
def abstraction(
    values: Values = None,
    buckets: Annotated[int | None, Option(min=1, help="Buckets per round. Default: 6.")] = None,
    samples_scale: Annotated[float, Option(help="Factor on the paper's sample counts.")] = 1.0,
    seed: arguments.OptionalSeed = None,
    out: Out = None,
    workers: arguments.Workers = 0,
    as_json: arguments.Json = False,
) -> None:
    """Build the card abstraction of limit hold'em (Samothrakis et al. 2011)."""
    from overtrick.datasets.card_abstraction_build import AbstractionConfig

    asked = _assignments(values, buckets=buckets, seed=seed)
    _generate(AbstractionConfig.parse(asked, samples_scale), out, workers, as_json)


@group.command()
def minibridge(
    values: Values = None,
    games: Annotated[
        int | None, Option(min=1, max=arguments.MOST, help="Games kept. Default: 100000.")
    ] = None,
    defenders: Annotated[str | None, Option(help="rules (the default), careful or random.")] = None,
    seed: arguments.OptionalSeed = None,
    out: Out = None,
    workers: arguments.Workers = 0,
    as_json: arguments.Json = False,
) -> None:
    """Play Mini-Bridge with a random declarer, and save the games in which it makes the contract.

    Further keys: strain=trump plays with the longest suit of the declaring pair as trumps if the
    pair has at least eight cards in it, and otherwise in notrump. The default is always notrump.
    lost=true also saves games in which the contract fails.
    """
    from overtrick.datasets.minibridge_games import MinibridgeConfig

    asked = _assignments(values, games=games, defenders=defenders, seed=seed)
    _generate(MinibridgeConfig.parse(asked), out, workers, as_json)


@group.command()
def deals(
    values: Values = None,
    boards: Annotated[
        int | None, Option(min=1, max=arguments.MOST, help="Boards. Default: 1000.")
    ] = None,
    system_ns: System = None,
    system_ew: System = None,
    dealer: Order = None,
    vulnerability: Order = None,
    seed: arguments.OptionalSeed = None,
    out: Out = None,
    workers: arguments.Workers = 0,
    as_json: arguments.Json = False,
) -> None:
    """Deal bridge boards, let two bidding systems bid them, and solve them double dummy."""
    from overtrick.datasets.bridge_deals import DealsConfig

    given = {"boards": boards, "system_ns": system_ns, "system_ew": system_ew}
    order = {"dealer": dealer, "vulnerability": vulnerability, "seed": seed}
    asked = _assignments(values, **given, **order)
    _generate(DealsConfig.parse(asked), out, workers, as_json)


@group.command()
def examples(
    values: Values = None,
    file: Annotated[
        list[Path] | None, Option(help="A file of boards with auctions; may be repeated.")
    ] = None,
    system_ns: Bidder = None,
    system_ew: Bidder = None,
    seed: arguments.OptionalSeed = None,
    out: Out = None,
    workers: arguments.Workers = 0,
    as_json: arguments.Json = False,
) -> None:
    """Turn the calls of bridge boards into training examples for bidding networks.

    Further keys: outcomes=true adds to each example the IMPs against par. kind=human uses only
    boards of this kind. solved=true reads files of deals with double-dummy tricks instead of
    auctions, and lets the two bidding systems bid the deals.
    """
    from overtrick.datasets.bidding_examples_build import ExamplesConfig

    asked = _assignments(values, system_ns=system_ns, system_ew=system_ew, seed=seed)
    _generate(ExamplesConfig.parse(asked, file or ()), out, workers, as_json)


def _assignments(values: list[str] | None, **options: Any) -> list[str]:
    """Return the options that are not None, followed by `values`, as a list of key=value.

    An entry of `values` overrides an option of the same name, because it comes later in the list.
    """
    given = [f"{key}={value}" for key, value in options.items() if value is not None]
    return [*given, *(values or [])]


def _generate(config: DatasetConfig, out: str | None, workers: int, as_json: bool) -> None:
    """Generate a data set, show the progress, and print the path, number of rows and seconds.

    `out`: the file or folder to write, or its URL; None: the default of the data set.
    """
    from overtrick.datasets import chunked_build
    from overtrick.distributed.workers import open_pool
    from overtrick.reports import progress

    with progress.stages(console) as on_stage, open_pool(workers) as pool:
        done = chunked_build.generate(config, out or config.default_path(), pool, on_stage)
    for problem in done.get("left_out", ()):
        say(problem)
    show(f"{done['path']}: {done['rows']} rows in {done['seconds']:.1f} s")
    print_result(as_json, **done)
