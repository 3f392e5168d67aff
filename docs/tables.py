"""Tables and passages of pages that come from the code: `make tables` writes them into the pages.

Between a line `<!-- table: NAME WORDS -->` of a page and the line `<!-- end -->` stands the result
of the function NAME below, called with WORDS. `make tables` brings all of them up to date. MkDocs,
which has this file as a hook, does the same for the pages that it renders.
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from math import isnan
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from overtrick.comparison import table_kinds
from overtrick.config import job_file
from overtrick.config.job_keys import list_keys
from overtrick.evaluation.reference_opponents import opponent_names
from overtrick.games import registry
from overtrick.games.bridge.system import convention_card as cards
from overtrick.games.bridge.system import loader
from overtrick.games.poker import rules as poker
from overtrick.games.poker.rules import PokerRules
from overtrick.policies.network_sizes import input_size
from overtrick.solvers import cfr, scheduled_cfr
from overtrick.storage.champions import champions as read_champions
from overtrick.training.registry import JOBS

ROOT = Path(__file__).parents[1]
MARKER = re.compile(
    r"^(<!-- table: (\w+) ?(.*?) -->)$(?:\n(?:(?!<!-- table)[^\n]*\n)*?<!-- end -->$)?",
    re.MULTILINE,
)
END = "<!-- end -->"
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "cluster/README.md": "cluster.md",
    "jobs": "jobs.md",
}
"""Pages that show files from outside docs/, by file."""

POKER = {each.name: each for each in vars(poker).values() if isinstance(each, PokerRules)}

OBSERVATION = ("Observation fields", "Facts")
"""First words of the paragraph about the observation in the docstring of a game."""

MANY = 20  # above this number of names, names with the same beginning share a row


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in a page before MkDocs renders it."""
    return filled(markdown)


def filled(markdown: str) -> str:
    """Return a page for MkDocs: every marker is replaced. Raises KeyError for an unknown marker."""
    return MARKER.sub(lambda found: TABLES[found[2]](found[3]), markdown)


def updated(markdown: str) -> str:
    """Return a page with the text after every marker brought up to date, for its file.

    A whole page from outside docs/ is linked, not copied. Raises KeyError for an unknown marker.
    """

    def current(found: re.Match[str]) -> str:
        name, words = found[2], found[3]
        # such pages lie directly in docs/
        text = f"See [{words}](../{words})." if name == page.__name__ else TABLES[name](words)
        return f"{found[1]}\n\n{text}\n\n{END}"

    return MARKER.sub(current, markdown)


def main() -> None:
    """Bring the tables of all pages up to date, and print the pages that change."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        before = path.read_text()
        if (after := updated(before)) != before:
            path.write_text(after)
            print(path.relative_to(ROOT))


def rows(head: Sequence[str], body: Iterable[Sequence[Any]]) -> str:
    """Format a table as Markdown."""
    lines = [head, ["---"] * len(head), *body]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def about(name: str) -> str:
    """Describe a game in one row: seats, actions, information sets, inputs, unit, opponents."""
    game = registry.make(name)
    acts = f"{len(game.action_names)} numbers" if game.actions is None else game.actions
    sets = game.infosets or "too many to number"
    return rows(
        ("name", "seats", "actions", "information sets", "inputs", "payoff in", "opponents"),
        [(f"`{name}`", game.seats, acts, sets, input_size(game), f"{game.unit}s",
          ", ".join(f"`{each}`" for each in opponent_names(game)))],
    )  # fmt: skip


def facts(name: str) -> str:
    """List a game's observation fields by index, and the paragraph on them of its class."""
    game = registry.make(name)
    listed = rows(
        ("index", "field"), _together(game.observation_fields, lambda field: field.split("_")[0])
    )
    return f"{listed}\n\n{_paragraphs(type(game), _of_observation)}"


def _of_observation(paragraph: str) -> bool:
    return any(words in paragraph for words in OBSERVATION)


def actions(name: str) -> str:
    """List the actions of a game by index; in poker also the moves that each stands for."""
    game = registry.make(name)
    if name not in POKER:
        return rows(("index", "action"), _together(game.action_names, lambda action: action[0]))
    stands = enumerate(POKER[name].actions)
    body = ((k, f"`{action}`", " or ".join(verbs)) for k, (action, verbs) in stands)
    return rows(("index", "action", "the legal one of"), body)


def rules(names: str) -> str:
    """Compare the rules of poker games, with the comment on each field of PokerRules."""
    known = [POKER[name] for name in names.split()]
    meanings = dict(
        re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(PokerRules), re.MULTILINE)
    )
    body = [
        (field, *(_plain(getattr(each, field)) for each in known), meaning)
        for field, meaning in meanings.items()
        if field != "actions"
    ]
    return rows(("rule", *(f"`{each.name}`" for each in known), "meaning"), body)


def matrix(name: str) -> str:
    """Return the payoff matrix of the row player of a normal-form game."""
    game = registry.make(name)
    body = zip(game.action_names, game.payoff.tolist(), strict=True)
    return rows(("", *game.action_names), [(action, *won) for action, won in body])


def rewards(_: str) -> str:
    """List the terms of sumo's rewards by name, in points."""
    from overtrick.games.sumo.game import REWARDS, RewardWeights  # here, for MuJoCo takes a moment

    terms = re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(RewardWeights), re.MULTILINE)
    body = [
        (f"`{term}`", *(f"{getattr(each, term):g}" for each in REWARDS.values()), meaning)
        for term, meaning in terms
    ]
    return rows(("term", *(f"`{name}`" for name in REWARDS), "multiplies"), body)


def plans(_: str) -> str:
    """List the variants of CFR with their parameters."""
    body = [(f"`{name}`", *map(_plain, astuple(plan))) for name, plan in cfr.VARIANTS.items()]
    return rows(("plan", r"$\alpha$", r"$\beta$", r"$\gamma$", "alternating"), body)


def scheduled_plans(_: str) -> str:
    """List the variants of CFR with prediction or with scheduled exponents."""
    body = []
    for name, plan in scheduled_cfr.VARIANTS.items():
        predictive = not isnan(plan.prediction)
        negative = "" if predictive else _line(plan.beta)
        weight = f"{plan.prediction:.3g}" if predictive else ""
        body.append((f"`{name}`", _line(plan.alpha), negative, _line(plan.gamma), weight))
    return rows(("plan", r"$\alpha$", r"$\beta$", r"$\gamma$", "$c$"), body)


def _line(schedule: scheduled_cfr.Schedule) -> str:
    """Return a schedule as a formula of the share s of a run."""
    if not schedule.slope:
        return f"{schedule.start:g}"
    return f"{schedule.start:g} {'-' if schedule.slope < 0 else '+'} {abs(schedule.slope):g}s"


def options(name: str) -> str:
    """List the options of a game, and the paragraph on them of its class."""
    kind = type(registry.make(name))
    asked = inspect.signature(kind).parameters.values()
    known = [each for each in asked if each.default is not each.empty]
    if not known:
        return "There are no options."
    listed = rows(
        ("option", "kind", "default"),
        [(f"`{each.name}`", each.annotation, f"`{_plain(each.default)}`") for each in known],
    )
    named = re.compile("|".join(rf"\b{each.name}\b" for each in known))
    meaning = _paragraphs(
        kind, lambda text: named.search(text) and not text.startswith(OBSERVATION)
    )
    return f"{listed}\n\n{meaning}"


def said(words: str) -> str:
    """Quote a docstring, or one paragraph of it with the indented paragraphs below.

    words: the dotted name of an object, perhaps a colon and the first words of the paragraph.
    """
    name, _, start = words.partition(": ")
    parts = (inspect.getdoc(resolve_name(name)) or "").split("\n\n")
    if start:
        (first,) = (k for k, part in enumerate(parts) if part.startswith(start))
        below = itertools.takewhile(lambda part: part.startswith(" "), parts[first + 1 :])
        parts = [parts[first], *below]
    return "\n".join(["```text", "\n\n".join(parts), "```"])


def speed(words: str) -> str:
    """Quote the rows of the table of speed in results.md that contain one of some phrases.

    words: the phrases, separated by semicolons. Rows that begin with "the same" follow their row.
    """
    section = (ROOT / "docs" / "results.md").read_text().partition("\n## Speed\n")[2]
    head, *table = [line for line in section.splitlines() if line.startswith("| ")]
    found: list[str] = []
    before = ""
    for line in table:
        what = line.split("|")[1]
        if any(each in what for each in words.split("; ")) or (
            what.startswith(" the same") and found[-1:] == [before]
        ):
            found.append(line)
        before = line
    if not found:
        raise KeyError(f"no row of speed in results.md has '{words}'")
    return "\n".join([head, "|---|---|---|---|", *found])


def keys(trainer: str) -> str:
    """List the keys of one trainer only; without a name, those of every trainer."""
    common = list(list_keys(job_file.Job))
    asked = list_keys({**JOBS, **table_kinds.TABLE_JOBS}[trainer]) if trainer else common
    own = [row for row in asked if not trainer or (row not in common and row[0] != "trainer")]
    here = f"sqlite:///{Path.cwd()}/"  # of the default store, in the working folder
    body = [
        (
            f"`{each.key}`",
            each.values,
            f"`{each.default.replace(here, 'sqlite:///')}`",
            each.meaning,
        )
        for each in own
    ]
    return rows(("key", "values", "default", "meaning"), body)


def example(name: str) -> str:
    """Show an example of docs/examples under the first sentence of its docstring.

    Its language is written `py`: tests run the files themselves, not these blocks.
    """
    text = (ROOT / "docs" / "examples" / f"{name}.py").read_text()
    title = re.split(r"[.:]\\s", text.split('"""')[1].replace("\n", " "))[0].rstrip(".")
    return f"### {title}\n\n```py\n{text.rstrip()}\n```"


def jobs(trainer: str) -> str:
    """List the job files of a trainer, or all of them, with their first comments."""
    found = []
    for path in sorted((ROOT / "jobs").glob("*.yaml")):
        text = path.read_text()
        if trainer in ("", yaml.safe_load(text)["trainer"]):
            comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
            found.append((f"`jobs/{path.name}`", " ".join(line[1:].strip() for line in comment)))
    return rows(("job", "content and expected result"), found)


def champions(_: str) -> str:
    """List the champions with the commands that measure and train them."""
    body = [
        (f"`{each.player}`", each.card["about"], each.strength,
         f"`{each.card['check']['command']}`", "<br>".join(f"`{c}`" for c in each.card["commands"]))
        for each in read_champions()
    ]  # fmt: skip
    return rows(("champion", "player", "measured", "measured by", "trained by"), body)


def convention_card(name: str) -> str:
    """The convention card of a bidding system."""
    return cards.convention_card(loader.load(name)).strip()


def page(path: str) -> str:
    """Return a file from outside docs/, with its links changed to these pages."""

    def linked(found: re.Match[str]) -> str:
        target = os.path.normpath(Path(path).parent / found[2])
        if target.startswith("docs/"):
            return f"[{found[1]}]({target.removeprefix('docs/')})"
        return f"[{found[1]}]({ELSEWHERE[target]})" if target in ELSEWHERE else found[1]

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", linked, (ROOT / path).read_text())


def _together(names: Sequence[str], head: Callable[[str], str]) -> list[tuple[str, str]]:
    """List names by index; many names are grouped in rows by their beginning, in order."""
    if len(names) <= MANY:
        return [(str(k), f"`{name}`") for k, name in enumerate(names)]
    parts, first = [], 0
    for _, part in itertools.groupby(names, head):
        group = list(part)
        last = first + len(group) - 1
        place = str(first) if last == first else f"{first} to {last}"
        parts.append((place, " ".join(f"`{name}`" for name in group)))
        first = last + 1
    return parts


def _paragraphs(kind: type, wanted: Callable[[str], Any]) -> str:
    """Join the wanted paragraphs of the docstrings of a class and its base classes."""
    own = [inspect.cleandoc(each.__doc__ or "") for each in kind.__mro__ if each is not object]
    return "\n\n".join(part for text in own for part in text.split("\n\n") if wanted(part))


def _plain(value: Any) -> str:
    """Format a Python value as in a job file."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


TABLES: dict[str, Callable[[str], str]] = {
    each.__name__: each
    for each in (
        *(about, actions, facts, matrix, options, rewards, rules, speed),
        *(champions, convention_card, example, jobs, keys, page, plans, said, scheduled_plans),
    )
}


if __name__ == "__main__":
    main()
