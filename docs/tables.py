"""What the pages have from the code, so that it cannot differ from it: a hook of MkDocs.

A line `<!-- table: NAME WORDS -->` of a page becomes what the function NAME below says.
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from overtrick.config import job_file
from overtrick.evaluation.reference_opponents import opponent_names
from overtrick.games import registry
from overtrick.games.poker import rules as poker
from overtrick.games.poker.rules import PokerRules
from overtrick.policies.network_sizes import input_size
from overtrick.solvers import cfr
from overtrick.training.registry import JOBS

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"^<!-- table: (\w+) ?(.*?) -->$", re.MULTILINE)
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "cluster/README.md": "cluster.md",
    "jobs": "jobs.md",
}
"""Files that stand outside docs/, and the pages that show them."""

POKER = {each.name: each for each in vars(poker).values() if isinstance(each, PokerRules)}

OBSERVATION = ("Observation fields", "Facts")
"""First words of the sentence about the observation in the docstring of a game."""

MANY = 20  # names of a list from which those that begin alike share a row


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page before MkDocs renders it."""
    return filled(markdown)


def filled(markdown: str) -> str:
    """A page with every marker replaced. Raises KeyError for a marker that nobody knows."""
    return MARKER.sub(lambda found: TABLES[found[1]](found[2]), markdown)


def rows(head: Sequence[str], body: Iterable[Sequence[Any]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *body]
    told = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in told)


def about(name: str) -> str:
    """A game in one line: what can be asked of it."""
    game = registry.make(name)
    acts = f"{len(game.action_names)} numbers" if game.actions is None else game.actions
    sets = game.infosets or "too many to number"
    return rows(
        ("name", "seats", "actions", "information sets", "features", "payoff in", "opponents"),
        [(f"`{name}`", game.seats, acts, sets, input_size(game), f"{game.unit}s",
          ", ".join(f"`{each}`" for each in opponent_names(game)))],
    )  # fmt: skip


def facts(name: str) -> str:
    """List a game's observation fields by index, and the paragraph on them of its class."""
    game = registry.make(name)
    listed = rows(
        ("index", "fact"), _together(game.observation_fields, lambda fact: fact.split("_")[0])
    )
    return f"{listed}\n\n{_paragraphs(type(game), _of_observation)}"


def _of_observation(paragraph: str) -> bool:
    return any(words in paragraph for words in OBSERVATION)


def actions(name: str) -> str:
    """What a seat may do, index by index; in poker also what each action stands for."""
    game = registry.make(name)
    if name not in POKER:
        return rows(("index", "action"), _together(game.action_names, lambda action: action[0]))
    stands = enumerate(POKER[name].actions)
    told = ((k, f"`{action}`", " or ".join(verbs)) for k, (action, verbs) in stands)
    return rows(("index", "action", "means, whichever is possible"), told)


def rules(names: str) -> str:
    """The rules of poker games side by side, with what games/poker/rules.py says of each."""
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
    """What the row player of a normal-form game wins."""
    game = registry.make(name)
    body = zip(game.action_names, game.payoff.tolist(), strict=True)
    return rows(("", *game.action_names), [(action, *won) for action, won in body])


def rewards(_: str) -> str:
    """The terms of sumo's rewards by name, in points."""
    from overtrick.games.sumo.game import REWARDS, RewardWeights  # here, for MuJoCo takes a moment

    terms = re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(RewardWeights), re.MULTILINE)
    body = [
        (f"`{term}`", *(f"{getattr(each, term):g}" for each in REWARDS.values()), meaning)
        for term, meaning in terms
    ]
    return rows(("term", *(f"`{name}`" for name in REWARDS), "multiplies"), body)


def plans(_: str) -> str:
    """The variants of regret minimisation."""
    body = [(f"`{name}`", *map(_plain, astuple(plan))) for name, plan in cfr.VARIANTS.items()]
    return rows(("plan", "a", "b", "c", "alternating"), body)


def options(name: str) -> str:
    """What a game can be made with, and what its class says of that."""
    kind = type(registry.make(name))
    asked = inspect.signature(kind).parameters.values()
    known = [each for each in asked if each.default is not each.empty]
    if not known:
        return "It has no options."
    listed = rows(
        ("option", "kind", "default"),
        [(f"`{each.name}`", each.annotation, f"`{_plain(each.default)}`") for each in known],
    )
    named = re.compile("|".join(rf"\b{each.name}\b" for each in known))
    told = _paragraphs(kind, lambda text: named.search(text) and not text.startswith(OBSERVATION))
    return f"{listed}\n\n{told}"


def said(words: str) -> str:
    """What a docstring says; after a colon, how the paragraph begins, of which what is indented
    below is a part."""
    name, _, start = words.partition(": ")
    parts = (inspect.getdoc(resolve_name(name)) or "").split("\n\n")
    if start:
        (first,) = (k for k, part in enumerate(parts) if part.startswith(start))
        below = itertools.takewhile(lambda part: part.startswith(" "), parts[first + 1 :])
        parts = [parts[first], *below]
    return "\n".join(["```text", "\n\n".join(parts), "```"])


def speed(words: str) -> str:
    """The rows of the table of speed in results.md that have some of these words, parted by
    semicolons, and what is said of the same thing below each."""
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
    """The keys of a trainer's job file that are not as all have them; of no trainer, those."""
    common = list(job_file.keys(job_file.Job))
    asked = job_file.keys(JOBS[trainer]) if trainer else common
    own = [row for row in asked if not trainer or (row not in common and row[0] != "trainer")]
    body = [(f"`{key}`", f"`{default}`", meaning) for key, default, meaning in own]
    return rows(("key", "default", "meaning"), body)


def jobs(trainer: str) -> str:
    """The job files of a trainer, or all of them, and what each says to expect."""
    found = []
    for path in sorted((ROOT / "jobs").glob("*.yaml")):
        text = path.read_text()
        if trainer in ("", yaml.safe_load(text)["trainer"]):
            comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
            found.append((f"`jobs/{path.name}`", " ".join(line[1:].strip() for line in comment)))
    return rows(("job", "what it is, and what to expect"), found)


def page(path: str) -> str:
    """A file that stands elsewhere, its links made to lead to these pages."""

    def leads(found: re.Match[str]) -> str:
        target = os.path.normpath(Path(path).parent / found[2])
        if target.startswith("docs/"):
            return f"[{found[1]}]({target.removeprefix('docs/')})"
        return f"[{found[1]}]({ELSEWHERE[target]})" if target in ELSEWHERE else found[1]

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", leads, (ROOT / path).read_text())


def _together(names: Sequence[str], head: Callable[[str], str]) -> list[tuple[str, str]]:
    """Names by index; of many, those that begin alike in one row, in order."""
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
    """The wanted paragraphs of the docstrings of a class, and of those it is made from."""
    own = [inspect.cleandoc(each.__doc__ or "") for each in kind.__mro__ if each is not object]
    return "\n\n".join(part for text in own for part in text.split("\n\n") if wanted(part))


def _plain(value: Any) -> str:
    """A value of Python as a job file writes it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


TABLES: dict[str, Callable[[str], str]] = {
    each.__name__: each
    for each in (
        *(about, actions, facts, matrix, options, rewards, rules, speed),
        *(jobs, keys, page, plans, said),
    )
}
