"""Read JSON files and JSON Lines by a schema, so that callers can trust what they get."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from overtrick.core.errors import UserError
from overtrick.core.files import read_complete_lines

log = logging.getLogger(__name__)
T = TypeVar("T")
SHOWN = 60  # characters of a wrong value that an error message quotes


class ClosedRecord(TypedDict):
    """Base schema of a JSON object. Undeclared keys are errors; types are not converted."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]


class OpenRecord(TypedDict):
    """Base schema of a JSON object. Undeclared keys are allowed; types are not converted."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]


def read_json(path: Path, schema: TypeAdapter[T], remedy: str) -> T:
    """Read a JSON file and validate its content by a schema.

    `remedy`: the end of the error message, in the imperative. Raises UserError, naming the file,
    the key and the remedy, if the file cannot be read or its content does not have the schema.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return parse_json(content, str(path), schema, remedy)


def parse_json(content: bytes, source: str, schema: TypeAdapter[T], remedy: str) -> T:
    """Validate the content of a JSON file by a schema. `source`, `remedy`: for the error message.

    Raises UserError if the content does not have the schema.
    """
    try:
        return schema.validate_json(content)
    except ValidationError as error:
        raise UserError(f"{source} is damaged ({first_problem(error)}): {remedy}") from None


def parse_lines(lines: Iterable[bytes], schema: TypeAdapter[T]) -> list[T | None]:
    """Parse lines of JSON by a schema; a damaged line becomes None."""

    def parsed(line: bytes) -> T | None:
        try:
            return schema.validate_json(line)
        except ValidationError:
            return None

    return [parsed(line) for line in lines]


def read_intact_lines(path: Path, schema: TypeAdapter[T], repair: bool = True) -> list[T]:
    """Read an append-only file of JSON lines; warn of damaged lines and leave them out.

    `repair`: as in `read_complete_lines`.
    """
    found = parse_lines(read_complete_lines(path, repair), schema)
    if damaged := found.count(None):
        log.warning("%s: damaged lines left out: %d", path, damaged)
    return [entry for entry in found if entry is not None]


def first_problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found, in one line: key, reason, and wrong value."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    text = f"{key}: {message}" if key else message
    if first["type"] not in ("missing", "json_invalid", "value_error"):
        text += f", not {repr(first['input'])[:SHOWN]}"
    return " ".join(text.split())
