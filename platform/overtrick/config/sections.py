"""Sections of job files: frozen records that refuse unknown keys and keys without effect."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from overtrick.core import UserError
from overtrick.storage import locate
from overtrick.storage.bucket_copy import absolute_or_url

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]

DataPath = Annotated[str, AfterValidator(lambda path: absolute_or_url(path, "the path"))]
"""Path or URL of a folder or file; the job stores the absolute path, or the URL."""
ModelPath = Annotated[str, AfterValidator(locate.absolute_path)]
"""Folder of a model, name or folder of its run, or champion:NAME. The job stores a champion's name,
and the absolute path of another model."""
Opponent = Annotated[str, AfterValidator(locate.absolute_if_path)]
"""Reference opponent by name, or a file, a run or the folder of a model. The job stores an absolute
path."""


class UnusedKeys(NamedTuple):
    """Keys of a job section that have no effect while other keys have certain values.

    - `keys`: the keys without effect. Setting one of them to a value other than its default is an
      error while every entry of `when` matches.
    - `when`: maps each of the other keys to the values at which `keys` have no effect. If `when` is
      empty, `keys` never have an effect.

    Keys are dotted paths, relative to the section.
    """

    when: Mapping[str, tuple[Any, ...]]
    keys: tuple[str, ...]
    reason: str = ""  # ends the sentence "KEYS have no effect"; made from `when` if empty


class UnusedKeysError(ValueError):
    """A job sets a key to a value although the key has no effect in this job."""

    def __init__(self, section: Section, rule: UnusedKeys, keys: Sequence[str]) -> None:
        self.section, self.rule, self.keys = section, rule, keys
        super().__init__(self.message(""))

    def message(self, prefix: str) -> str:
        """Return the error message: which keys have no effect, why, and how to mend the job.

        `prefix`: the dotted path of the section with a final dot, or an empty string.
        """
        conditions, remedies = [], []
        for key in self.rule.when:
            value, name = self.section.value_at(key), f"{prefix}{key}"
            conditions.append(f"with {name} {value}" if value else f"without {name}")
            remedies.append(f"set {name}")
            if choices := self._useful_choices(key):
                remedies[-1] += f" to {' or '.join(choices)}"
        reason = self.rule.reason or " and ".join(conditions)
        names = ", ".join(f"{prefix}{key}" for key in self.keys)
        has, them = ("have", "them") if len(self.keys) > 1 else ("has", "it")
        empty = [k for k in self.keys if isinstance(self.section.value_at(k), Section)]
        ways = [f"leave {them} out", *(f"set {prefix}{key}={{}}" for key in empty), *remedies]
        return f"{names} {has} no effect {reason}: {', or '.join(ways)}"

    def _useful_choices(self, key: str) -> list[str]:
        """Return the values of `key` with which the unused keys of this error would have an effect.

        `key`: dotted path of a key on whose value the effect of the unused keys depends. The list
        is empty unless the type of `key` is a Literal.
        """
        *parents, leaf = key.split(".")
        section = self.section.value_at(".".join(parents)) if parents else self.section
        annotation = type(section).model_fields[leaf].annotation
        found = [annotation, *typing.get_args(annotation)]
        choices = (kind for kind in found if typing.get_origin(kind) is Literal)
        names = typing.get_args(next(choices, None))
        rules = [r for r in self.section.unused_keys if set(r.keys) & set(self.keys)]
        return [name for name in names if not any(name in r.when.get(key, ()) for r in rules)]


class Section(BaseModel):
    """Frozen section of a job file. Unknown keys, and keys without effect, are errors."""

    model_config = ConfigDict(
        defer_build=True,  # most commands use few of the schemas
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )
    unused_keys: ClassVar[tuple[UnusedKeys, ...]] = ()

    @pydantic.model_validator(mode="after")
    def _every_key_has_an_effect(self, info: pydantic.ValidationInfo) -> Self:
        stored = info.context is not None and info.context["stored"]
        for rule in () if stored else self._rules_that_apply():
            if changed := self.changed_keys(rule.keys):
                raise UnusedKeysError(self, rule, changed)
        return self

    def _rules_that_apply(self) -> Iterator[UnusedKeys]:
        for rule in self.unused_keys:
            if all(self.value_at(key) in values for key, values in rule.when.items()):
                yield rule

    def keys_without_effect(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Yield the dotted path of each key that has no effect, and an error message about it.

        `prefix`: dotted path of this section, with a final dot.
        """
        for rule in self._rules_that_apply():
            for key in rule.keys:
                yield f"{prefix}{key}", UnusedKeysError(self, rule, [key]).message(prefix)
        for name, value in self:
            if isinstance(value, Section):
                yield from value.keys_without_effect(f"{prefix}{name}.")

    @classmethod
    def never_used_keys(cls) -> set[str]:
        """Return the keys that have no effect, whatever the values of the other keys."""
        return {key for rule in cls.unused_keys if not rule.when for key in rule.keys}

    def value_at(self, path: str) -> Any:
        """Return the value at a dotted path below this section."""
        return reduce(getattr, path.split("."), self)

    def changed_keys(self, paths: Iterable[str]) -> list[str]:
        """Return the dotted `paths` whose values differ from their defaults."""
        changed = []
        for path in paths:
            *parents, leaf = path.split(".")
            section = self.value_at(".".join(parents)) if parents else self
            default = type(section).model_fields[leaf].get_default(call_default_factory=True)
            if getattr(section, leaf) != default:
                changed.append(path)
        return changed


SectionT = TypeVar("SectionT", bound=Section)


def validated(
    section: type[SectionT], content: Mapping[str, Any], source: str = "", stored: bool = False
) -> SectionT:
    """Validate the plain data of a section and return the typed section.

    `source`: the file, named in error messages. `stored`: accept values of keys without effect.
    Raises UserError, in one line, for the first error that pydantic finds.
    """
    try:
        return section.model_validate(dict(content), context={"stored": stored})
    except ValidationError as error:
        first = error.errors()[0]
    path = ".".join(str(key) for key in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UnusedKeysError):
        path, message = "", cause.message(f"{path}." if path else "")
    else:
        message = first["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
    value = first["input"]
    if first["type"] == "tuple_type":
        message = f"input should be a list, such as [{value}]"
    if first["type"] != "value_error" and not isinstance(value, dict):
        message += f", not {value!r}"
    place = " in ".join(part for part in (path and f"'{path}'", source) if part)
    raise UserError(f"{place}: {message}" if place else message)


def section_class(annotation: Any) -> type[Section] | None:
    """Return the section class in a type annotation, such as Stop in `Stop | None`; else None."""
    if typing.get_origin(annotation) in (Literal, dict):
        return None
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None
