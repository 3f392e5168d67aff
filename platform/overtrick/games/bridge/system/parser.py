"""The file of a bidding system: places in the auction, and the rules that hold there.

    system natural
    title  Two over one

    at 1N (P)                          # where: the calls since the opening bid, theirs in brackets
      2C | 8+ hcp, H 4 | Stayman | asking            # a call, what it shows, its name, its kind
      3x | x 6+, 14+ hcp if not passed | Slam try | forcing

The first rule that fits a hand is its call. Places that tell the auction from its opening bid on
are tried first, in the order of the file; then those that tell its last calls, `at ... 4N (P)`;
then `at anywhere`. Each kind of place names only calls that none before it names. A file `based on`
another one is tried first, and the other names only calls that it does not. After a place that
begins with `only at` nothing else counts. The words are those of `terms`.

A rule of the kind `heard` reads calls and makes none; one of the kind `rare` makes calls that
nobody expects of such a hand. What a call promises is the hull of the rules that make it, and
partner counts on that. What it shows takes in how far players stretch it, the rules that are heard,
and leaves out the rare ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from overtrick.core import UserError

FOLDER = Path(__file__).parent
SUFFIX = ".bidding"


@dataclass(frozen=True)
class Rule:
    """One line: a call and what it shows."""

    line: int
    call: str
    shows: tuple[str, ...]
    when: tuple[str, ...]
    name: str
    kinds: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Place:
    """Where in an auction some rules hold."""

    line: int
    patterns: tuple[str, ...]
    when: tuple[str, ...]
    only: bool
    rules: tuple[Rule, ...]
    source: str
    based: int = 0  # how many files stand before this one

    @property
    def level(self) -> int:
        """Calls mean what the places of the lowest level say that name them."""
        last_calls = any(each.startswith("...") for each in self.patterns)
        return 3 * self.based + (2 if "anywhere" in self.patterns else int(last_calls))


def parse_file(
    path: Path, above: tuple[Path, ...] = ()
) -> tuple[dict[str, str], tuple[Place, ...]]:
    """The head of a file and its places, with those of the file that it is based on.

    above: the files that are based on this one. Raises UserError with the file and the line.
    """
    text = _text(path)
    head: dict[str, str] = {}
    places: list[Place] = []
    open_place: tuple[int, str] | None = None
    rules: list[Rule] = []

    def close() -> None:
        if open_place is not None:
            places.append(_place(*open_place, tuple(rules), path.name))
            rules.clear()

    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].strip()
        if not line:
            continue
        try:
            word, _, rest = line.partition(" ")
            if word in ("system", "title", "based"):
                head[word] = rest.strip()
            elif word in ("at", "only"):
                close()
                open_place = (number, line)
            elif open_place is None:
                raise UserError(f"'{line}' stands before the first place: write 'at ...' above it")
            else:
                rules.append(_rule(number, line, path.name))
        except UserError as error:
            raise UserError(f"{path.name}, line {number}: {error}") from None
    close()
    if "system" not in head:
        raise UserError(f"{path.name}: no name: begin with 'system NAME'")
    if not places:
        raise UserError(f"{path.name}: no places: write 'at opening' and rules below it")
    if "based" in head:
        places += _based(path, head["based"].removeprefix("on").strip(), above)
    return head, tuple(places)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path.name} is not text in UTF-8") from None


def _based(path: Path, base: str, above: tuple[Path, ...]) -> list[Place]:
    """The places of the file that another one is based on: beside it, or one of ours."""
    beside = path.parent / f"{base}{SUFFIX}"
    found = beside if beside.exists() else FOLDER / f"{base}{SUFFIX}"
    if not found.exists() or found == path:
        raise UserError(
            f"{path.name}: based on '{base}', which is none of {', '.join(system_names())}"
        )
    if found.resolve() in above:
        raise UserError(f"{path.name}: based on '{base}', which is based on it")
    more = parse_file(found, (*above, path.resolve()))[1]
    return [replace(place, based=place.based + 1) for place in more]


def _place(number: int, line: str, rules: tuple[Rule, ...], source: str) -> Place:
    only = line.startswith("only ")
    text, _, when = line.removeprefix("only ").removeprefix("at").partition(" if ")
    patterns = tuple(" ".join(each.split()) for each in text.split("|"))
    if not rules:
        raise UserError(f"{source}, line {number}: no rules at '{line}'")
    return Place(number, patterns, _parts(when), only, rules, source)


def _rule(number: int, line: str, source: str) -> Rule:
    columns = [" ".join(column.split()) for column in line.split("|")]
    if len(columns) not in (3, 4):
        raise UserError(f"'{line}': write CALL | what it shows | name | kinds")
    shows, _, when = columns[1].partition(" if ")
    kinds = _parts(columns[3]) if len(columns) == 4 else ()
    return Rule(number, columns[0], _parts(shows), _parts(when), columns[2], kinds, source)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part for part in (" ".join(each.split()) for each in text.split(",")) if part)


def system_names() -> tuple[str, ...]:
    """The systems that come with the platform."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))
