"""Registered models: a name, its versions, and aliases that each mean one of them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from overtrick.core import UserError, nearest

SCHEME = "models:/"
NAME = r"\w[\w .-]*"  # of a model
NAMED = f"^{NAME}$"
RESERVED = r"(?i)latest|v\d+"
ALIAS = r"[\w-]*[A-Za-z_-][\w-]*"
_WORDS = re.compile(rf"{SCHEME}(?P<name>{NAME})(/(?P<version>[0-9]+)|@(?P<alias>{ALIAS}))")
MISSING, THERE = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"  # MLflow's codes


class NoModel(UserError):
    """A run of which MLflow has no model."""

    error_code = "INVALID_PARAMETER_VALUE"  # as MLflow says that it will never take something


class Asked(NamedTuple):
    """One version of a registered model; by its number, or by an alias."""

    name: str
    version: str | None
    alias: str | None


def parse(words: str) -> Asked:
    """What is meant by models:/NAME/VERSION or models:/NAME@ALIAS. Raises UserError."""
    found = _WORDS.fullmatch(words)
    if found is None:
        raise UserError(
            f"'{words}' names no registered model: write {SCHEME}NAME/VERSION or {SCHEME}NAME@ALIAS"
        )
    return Asked(**found.groupdict())


def check_names(name: str, alias: str | None) -> None:
    """Raise UserError for a name of a model, or an alias, that could not be asked for."""
    if not re.fullmatch(NAME, name):
        raise UserError(f"a model cannot be called '{name}': letters, digits, spaces, . - and _ do")
    if alias is not None and not re.fullmatch(ALIAS, alias):
        raise UserError(f"an alias cannot be '{alias}': letters, digits, - and _ do")
    if alias is not None and re.fullmatch(RESERVED, alias):
        raise UserError(f"an alias cannot be '{alias}': MLflow keeps latest, and v with a number")


def find(client: Any, asked: Asked, uri: str) -> Any:
    """MLflow's record of a version. Raises UserError, and says what there is instead."""
    name, version, alias = asked
    try:
        model = client.get_registered_model(name)
    except Exception as error:
        _unless(error, MISSING)
        known = sorted(each.name for each in client.search_registered_models())
        hint = f"did you mean '{nearest(name, known)}'?" if known else "`overtrick register` does"
        raise UserError(f"no model '{name}' is registered at {uri}: {hint}") from None
    if alias is not None:
        if alias not in model.aliases:
            others = ", ".join(sorted(model.aliases)) or "none"
            raise UserError(f"model '{name}' at {uri} has no alias '{alias}', but {others}")
        version = model.aliases[alias]
    there = {str(each.version): each for each in client.search_model_versions(f"name='{name}'")}
    if str(version) not in there:
        others = ", ".join(sorted(there, key=int)) or "none"
        raise UserError(f"model '{name}' at {uri} has no version {version}, but {others}")
    return there[str(version)]


def model_id(client: Any, run_id: str) -> str | None:
    """What MLflow calls the model of a run; None if it has none."""
    outputs = client.get_run(run_id).outputs
    return outputs.model_outputs[0].model_id if outputs and outputs.model_outputs else None


def register(client: Any, run_id: str, name: str, alias: str | None = None) -> int:
    """The version under which the model of a run stands there, a new one unless it does already.
    An alias, if one is given, comes to mean this version. Raises NoModel."""
    known = model_id(client, run_id)
    if known is None:
        raise NoModel(f"MLflow has no model of run {run_id}: only one that answers by itself has")
    try:
        client.create_registered_model(name)
    except Exception as error:
        _unless(error, THERE)
    # by its place: a client that is told of the model alone looks for it at MLflow's default
    where = client.get_logged_model(known).artifact_location
    stand = [v for v in client.search_model_versions(f"name='{name}'") if v.source == where]
    if not stand:
        stand = [client.create_model_version(name, where, run_id, model_id=known)]
    if alias is not None:
        client.set_registered_model_alias(name, alias, stand[0].version)
    return int(stand[0].version)


def _unless(error: Exception, code: str) -> None:
    """Raise what MLflow complains of, unless it is this."""
    if getattr(error, "error_code", "") != code:
        raise error
