"""Parse bidding-system files.

A file is a list of sections (class Place). A section begins with a pattern of the auction so far
and lists the bidding rules that apply after it:

    system natural
    title  Two over one
    signals count standard, attitude standard

    at 1N (P)                          # a section: the rules after 1NT by partner and a pass
      2C | 8+ hcp, H 4 | Stayman | asking            # call, hand it shows, name, kinds
      3x | x 6+, 14+ hcp if not passed | Slam try | forcing

Calls of opponents are in brackets. The letter x stands for any suit: by the last rule, a seat that
has not passed bids three of a suit with at least six cards in this suit and 14 points.

A hand makes the call of the first rule that it fits. Sections are tried in three groups, and within
a group in the order of the file:

1. sections for an exact auction, from the opening bid on, such as `at 1N (P)`
2. sections for the last calls of an auction, such as `at ... 4N (P)`
3. sections for every auction, `at anywhere`

A later group is used only for calls that have no rule in an earlier group. If a section that begins
with `only at` applies, no later group is tried. The groups of a file come before the groups of the
file that it is `based on`. Modules hand_terms and auction_conditions parse the terms.

The rules for a call define two sets of hands, each a union over rules:

- Promised hands are used by the system's rules for later calls. A rule can test, for example, the
  sum of the own points and partner's promised minimum.
- Shown hands determine input features of bidding networks.

A rule can be marked `heard` (for interpretation only) or `rare` (for hands too rare to expect):

    mark    makes the call   part of promised hands   part of shown hands
    none    yes              yes                      yes
    heard   no               no                       yes
    rare    yes              yes                      no

If all rules for a call have the same mark, none is left out of either set.

A kind may end in `if unpassed`, such as `forcing if unpassed`: the call has it only if its player
did not pass before the opening bid. A hand that fits no rule makes `rule_matching.default_call`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from overtrick.core import UserError
from overtrick.core.files import read_text
from overtrick.games.bridge.cardplay.defence_signals import parse_signals

FOLDER = Path(__file__).parent
SUFFIX = ".bidding"
MAX_RULES = 5_000  # of a file


@dataclass(frozen=True)
class Rule:
    """One rule of a bidding-system file, as text: a call and the hand that it shows."""

    line: int  # line number in the file, from 1
    call: str
    shows: tuple[str, ...]  # terms about the hand
    when: tuple[str, ...]  # conditions on the auction
    name: str
    kinds: tuple[str, ...]  # terms such as forcing, asking, heard
    source: str  # file name


@dataclass(frozen=True)
class Place:
    """A section of a bidding-system file: patterns of calls and the rules that apply after them."""

    line: int  # line number in the file, from 1
    patterns: tuple[str, ...]  # alternative call sequences
    when: tuple[str, ...]  # conditions on the auction
    only: bool  # if the place applies, no later group is tried
    rules: tuple[Rule, ...]
    source: str  # file name
    base_depth: int = 0  # 0 in the loaded file, 1 in the file that it is based on, and so on

    @property
    def priority(self) -> int:
        """Return the precedence of this section; sections with lower numbers are tried first.

        - 0: the section is for an exact auction, such as `at 1N (P)`
        - 1: the section is for the last calls of an auction, such as `at ... 4N (P)`
        - 2: the section is for every auction, `at anywhere`

        For a section of the base file, add 3: base files are consulted after the file itself.
        """
        last_calls = any(each.startswith("...") for each in self.patterns)
        return 3 * self.base_depth + (2 if "anywhere" in self.patterns else int(last_calls))


def parse_file(
    path: Path, above: tuple[Path, ...] = ()
) -> tuple[dict[str, str], tuple[Place, ...]]:
    """Parse a bidding-system file and the files that it is based on.

    Return the header of the file (keys `system`, `title`, `based`, `signals`) and the sections of
    all files. Without a line `signals` that of the base file is used.
    above: the chain of files whose `based on` lines led to this file, to detect a cycle. Raises
    UserError with the file and line of an error.
    """
    head: dict[str, str] = {}
    groups: list[tuple[int, str, list[Rule]]] = []
    count = 0
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.split("#")[0].strip()
        word, _, rest = line.partition(" ")
        try:
            if word in ("system", "title", "based", "signals"):
                head[word] = rest.strip()
                if word == "signals":
                    parse_signals(rest)  # an error names this line
            elif word in ("at", "only"):
                groups.append((number, line, []))
            elif line and not groups:
                raise UserError(f"'{line}' is before the first place: write 'at ...' above it")
            elif line:
                count += 1
                if count > MAX_RULES:
                    raise UserError(f"more than {MAX_RULES} rules: move some to a base file")
                groups[-1][2].append(_parse_rule(number, line, path.name))
        except UserError as error:
            raise UserError(f"{path.name}, line {number}: {error}") from None
    places = [_parse_place(*group, path.name) for group in groups]
    if "system" not in head:
        raise UserError(f"{path.name}: no name: begin with 'system NAME'")
    if not places:
        raise UserError(f"{path.name}: no places: write 'at opening' and rules below it")
    if "based" in head:
        base, more = _parse_base(path, head["based"].removeprefix("on").strip(), above)
        places += more
        if "signals" in base:
            head.setdefault("signals", base["signals"])
    return head, tuple(places)


def _parse_base(
    path: Path, base: str, above: tuple[Path, ...]
) -> tuple[dict[str, str], list[Place]]:
    """Parse the base file of the bidding-system file `path`; return its header and sections.

    base: name of the base file, in the same folder or among the systems of the package. above: the
    chain of files whose `based on` lines led to `path`, to detect a cycle. Raises UserError for an
    unknown name or a cycle.
    """
    beside = path.parent / f"{base}{SUFFIX}"
    found = beside if beside.exists() else FOLDER / f"{base}{SUFFIX}"
    if not found.exists() or found == path:
        known = ", ".join(system_names())
        raise UserError(f"{path.name}: based on '{base}', which is not one of {known}")
    if found.resolve() in above:
        raise UserError(f"{path.name}: based on '{base}', which is based on it")
    head, places = parse_file(found, (*above, path.resolve()))
    return head, [replace(place, base_depth=place.base_depth + 1) for place in places]


def _parse_place(number: int, line: str, rules: list[Rule], source: str) -> Place:
    only = line.startswith("only ")
    text, _, when = line.removeprefix("only ").removeprefix("at").partition(" if ")
    patterns = tuple(" ".join(each.split()) for each in text.split("|"))
    if not rules:
        raise UserError(f"{source}, line {number}: no rules at '{line}'")
    return Place(number, patterns, _split_terms(when), only, tuple(rules), source)


def _parse_rule(number: int, line: str, source: str) -> Rule:
    columns = [" ".join(column.split()) for column in line.split("|")]
    if len(columns) not in (3, 4):
        raise UserError(f"'{line}': write CALL | what it shows | name | kinds")
    shows, _, when = columns[1].partition(" if ")
    kinds = columns[3] if len(columns) == 4 else ""
    terms, conditions = _split_terms(shows), _split_terms(when)
    return Rule(number, columns[0], terms, conditions, columns[2], _split_terms(kinds), source)


def _split_terms(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of terms, normalise their spaces, and drop empty terms."""
    return tuple(term for term in (" ".join(each.split()) for each in text.split(",")) if term)


def system_names() -> tuple[str, ...]:
    """Return the names of the bidding systems that come with the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))
