"""Command-line overrides `key=value` of job files and of data set configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml
from pydantic import BaseModel

from overtrick.config.strict_yaml import parse_yaml
from overtrick.core import UserError, suggestion


def apply_overrides(content: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return a copy of a job's plain data with overrides `dotted.key=VALUE` applied.

    VALUE is parsed as YAML. Raises UserError for an override that is not of this form.
    """
    changed = deepcopy(dict(content))
    for override in overrides:
        path, value = _split(override, "stop.iterations=4")
        try:
            parsed = parse_yaml(value)
        except yaml.YAMLError:
            raise UserError(f"override '{override}': '{value}' is not a YAML value") from None
        set_value(changed, path, parsed, f"override '{override}'")
    return changed


def set_value(content: dict[str, Any], path: str, value: Any, source: str) -> None:
    """Set the value at a dotted path of a job's plain data, in place; add missing sections.

    `source`: the origin of the value, for error messages. Raises UserError if the path goes through
    a key that holds a plain value, not a section.
    """
    *parents, leaf = path.split(".")
    if parents[:1] == ["search"] and isinstance(value, Mapping):  # its keys are dotted paths
        parents, leaf = ["search"], path.removeprefix("search.")
    elif parents[:1] == ["search"] and parents[1:]:  # search.meta.inner_lr.grid
        parents = ["search", ".".join(parents[1:])]
    section = content
    for parent in parents:
        inner = section.setdefault(parent, {})
        if parent == "game" and isinstance(inner, str):
            inner = section[parent] = {"name": inner}
        if not isinstance(inner, dict):
            raise UserError(f"{source}: '{parent}' holds a value, not keys")
        section = inner
    section[leaf] = value


def field_overrides(
    model: type[BaseModel], overrides: Sequence[str], subject: str
) -> dict[str, str]:
    """Split overrides `key=value` of a pydantic model's fields, and return the value texts by key.

    `model` has no nested sections. `subject`: the name of the model in error messages. Raises
    UserError for an unknown key.
    """
    values = {}
    for override in overrides:
        key, value = _split(override, "seed=1")
        if key not in model.model_fields:
            hint = suggestion(key, model.model_fields)
            raise UserError(f"unknown key '{key}' of {subject}: {hint}")
        values[key] = value
    return values


def _split(override: str, example: str) -> tuple[str, str]:
    """Split an override `key=value` at its first `=`; return key and value.

    `example`: a valid override, quoted in the error message. Raises UserError if there is no `=`.
    """
    key, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"override '{override}' must be key=value, such as {example}")
    return key, value
