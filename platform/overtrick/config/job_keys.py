"""Describe the keys of job files: their types, ranges, defaults and meanings."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from overtrick.config.sections import Section, section_class

TYPES = {
    "integer": "integer", "number": "number", "string": "text", "boolean": "true, false",
    "null": "null", "array": "list", "object": "mapping",
}  # fmt: skip
"""Words for the types of a JSON schema."""

BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}
"""Words for the bounds of numbers in a JSON schema."""


class JobKey(NamedTuple):
    """A key of a job file, as `overtrick keys TRAINER` shows it."""

    key: str  # dotted path
    values: str  # type, range or allowed values, in words
    default: str  # as written in a job file
    meaning: str


def list_keys(section: type[Section], prefix: str = "") -> Iterator[JobKey]:
    """Yield each key of a section and of its subsections, except keys that never have an effect.

    `prefix`: dotted path of the section, with a final dot. NAME stands for the user's name of a
    section, as in games.NAME.seeds.
    """
    for name, field in section.model_fields.items():
        if name in section.never_used_keys():
            continue
        inner = section_class(field.annotation)
        if typing.get_origin(field.annotation) is dict:
            named = typing.get_args(field.annotation)[1]
            if isinstance(named, type) and issubclass(named, Section):
                yield from list_keys(named, f"{prefix}{name}.NAME.")
                continue
        if inner is not None and name != "game":
            yield from list_keys(inner, f"{prefix}{name}.")
        else:
            meaning = " ".join((field.description or "").split())
            yield JobKey(f"{prefix}{name}", _describe_values(field), _default(field), meaning)


def _default(field: FieldInfo) -> str:
    """Return the default of a key as written in a job file, or "required"."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        default = default.model_dump(mode="json", exclude_defaults=True)
    if field.is_required():
        return "required"
    return default if isinstance(default, str) else json.dumps(default)


def _describe_values(field: FieldInfo) -> str:
    """Return the type, range or allowed values of a key in words, such as "integer, at least 1"."""
    kind: Any = field.annotation
    if field.metadata:
        kind = Annotated[kind, *field.metadata]
    schema = TypeAdapter[Any](kind).json_schema()
    return _words(schema, schema.get("$defs", {}))


def _words(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a JSON schema in words. `definitions`: the schemas of its references, by name."""
    if "$ref" in schema:
        return _words(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        kinds = dict.fromkeys(_words(each, definitions) for each in schema["anyOf"])
        return " or ".join(sorted(kinds, key=lambda words: words != "null"))
    if "enum" in schema or "const" in schema:
        return ", ".join(str(value) for value in schema.get("enum") or [schema["const"]])
    kind = TYPES.get(schema.get("type", ""), "any value")
    if kind == "list":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        inner = ", ".join(dict.fromkeys(_words(each, definitions) for each in parts))
        return f"list of ({inner})" if "," in inner else f"list of {inner}"
    bounds = [words.format(schema[key]) for key, words in BOUNDS.items() if key in schema]
    return ", ".join([kind, *bounds])
