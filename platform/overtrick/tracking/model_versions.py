"""Names, versions and aliases of models in MLflow's model registry."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from overtrick.core import UserError, suggestion

SCHEME = "models:/"
ITERATION = "overtrick.iteration"  # tag of a version: the iteration after which it was stored
NAME = r"\w[\w .-]*"  # of a model or an experiment
NAMED = f"^{NAME}$"
RESERVED = r"(?i)latest|v\d+"
ALIAS = r"[\w-]*[A-Za-z_-][\w-]*"
_REFERENCE = re.compile(rf"{SCHEME}(?P<name>{NAME})(/(?P<version>[0-9]+)|@(?P<alias>{ALIAS}))")
MISSING, EXISTS = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"  # MLflow's codes


class NoModelError(UserError):
    """Error: MLflow has no model of the run."""

    error_code = "INVALID_PARAMETER_VALUE"  # MLflow's code for an event that it never accepts


class ModelReference(NamedTuple):
    """Reference to a version of a registered model, by its number or by an alias."""

    name: str
    version: str | None
    alias: str | None


def parse(text: str) -> ModelReference:
    """Parse models:/NAME/VERSION or models:/NAME@ALIAS. Raises UserError for any other text."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        forms = f"{SCHEME}NAME/VERSION or {SCHEME}NAME@ALIAS"
        raise UserError(f"'{text}' names no registered model: write {forms}")
    return ModelReference(**found.groupdict())


def check_names(name: str, alias: str | None) -> None:
    """Raise UserError for an invalid name or alias of a registered model.

    A reference such as models:/NAME@ALIAS must be possible with the name and the alias.
    """
    if not re.fullmatch(NAME, name):
        raise UserError(f"a model cannot be called '{name}': use letters, digits, spaces, . - _")
    if alias is not None and not re.fullmatch(ALIAS, alias):
        raise UserError(f"an alias cannot be '{alias}': use letters, digits, - and _")
    if alias is not None and re.fullmatch(RESERVED, alias):
        raise UserError(f"an alias cannot be '{alias}': MLflow reserves latest and v with a number")


def find(client: Any, reference: ModelReference, uri: str) -> Any:
    """Return MLflow's record of a version of a registered model.

    `uri`: the MLflow server, for errors. If there is no such version, raises UserError; the message
    lists the existing models, versions or aliases.
    """
    name, version, alias = reference
    try:
        model = client.get_registered_model(name)
    except Exception as error:
        _raise_unless(error, MISSING)
        known = sorted(each.name for each in client.search_registered_models())
        hint = suggestion(name, known) if known else "use `overtrick register`"
        raise UserError(f"no model '{name}' is registered at {uri}: {hint}") from None
    if alias is not None:
        if alias not in model.aliases:
            others = ", ".join(sorted(model.aliases)) or "none"
            raise UserError(f"model '{name}' at {uri} has no alias '{alias}'; it has {others}")
        version = model.aliases[alias]
    versions = {str(v.version): v for v in client.search_model_versions(f"name='{name}'")}
    if str(version) not in versions:
        others = ", ".join(sorted(versions, key=int)) or "none"
        raise UserError(f"model '{name}' at {uri} has no version {version}; it has {others}")
    return versions[str(version)]


def model_ids(client: Any, run_id: str) -> dict[str, str]:
    """Return MLflow's ids of the models of a run, by their names in MLflow."""
    outputs = client.get_run(run_id).outputs
    ids = [each.model_id for each in outputs.model_outputs] if outputs else []
    return {client.get_logged_model(each).name: each for each in ids}


def iterations(client: Any, run_id: str) -> dict[str, int]:
    """Return the iterations after which the models of a run were stored, by MLflow's model id."""
    outputs = client.get_run(run_id).outputs
    return {each.model_id: each.step for each in outputs.model_outputs} if outputs else {}


def register(
    client: Any, run_id: str, name: str, alias: str | None = None, logged: str = "model"
) -> int:
    """Register a model of a run under a name and return its version.

    A model that is already registered keeps its version. `alias`: an alias that is moved to this
    version; None: no alias. `logged`: name of the model in the run. Raises NoModelError if MLflow
    has no such model of the run.
    """
    known = model_ids(client, run_id).get(logged)
    if known is None:
        reason = "only a model that answers by itself has one"
        raise NoModelError(f"MLflow has no model of run {run_id}: {reason}")
    try:
        client.create_registered_model(name)
    except Exception as error:
        _raise_unless(error, EXISTS)
    # with the model's id alone a client would look for it at MLflow's default address
    location = client.get_logged_model(known).artifact_location
    same = [v for v in client.search_model_versions(f"name='{name}'") if v.source == location]
    if not same:
        tags = {ITERATION: str(iterations(client, run_id)[known])}
        same = [client.create_model_version(name, location, run_id, tags, model_id=known)]
    if alias is not None:
        client.set_registered_model_alias(name, alias, same[0].version)
    return int(same[0].version)


def _raise_unless(error: Exception, code: str) -> None:
    """Re-raise an MLflow error, unless it has the error code `code`."""
    if getattr(error, "error_code", "") != code:
        raise error
