"""A bidding system: its rules as text, and compiled to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overtrick.core import UserError
from overtrick.games.bridge.cardplay.defence_signals import NO_SIGNALS, Signals
from overtrick.games.bridge.system import compiler
from overtrick.games.bridge.system.compiler import RuleBlock, SystemTables
from overtrick.games.bridge.system.parser import Place, Rule


@dataclass(frozen=True)
class System:
    """A bidding system: its rules as text and compiled to arrays, and the signals in defence."""

    name: str
    title: str
    places: tuple[Place, ...]  # sections of the file, in order of priority
    rules: tuple[Rule, ...]  # the rules of all places, in the order of the places
    tables: SystemTables
    signals: Signals = NO_SIGNALS


def build_system(
    name: str, title: str, parsed: Sequence[Place], signals: Signals = NO_SIGNALS
) -> tuple[System, list[RuleBlock]]:
    """Compile the places of a system; return the system and its rules by auction pattern.

    Raises UserError with the file and line of a term that cannot be parsed, or of a place whose
    comparisons of suits are never true.
    """
    places = tuple(sorted(parsed, key=lambda place: place.priority))
    rules = tuple(rule for place in places for rule in place.rules)
    blocks = compiler.expand_places(places, rules)
    used = {id(block.place) for block in blocks}
    for place in places:
        if id(place) not in used:
            where = f"{place.source}, line {place.line}"
            raise UserError(f"{where}: never applies: {', '.join(place.when)}")
    return System(name, title, places, rules, compiler.compile_tables(blocks), signals), blocks
