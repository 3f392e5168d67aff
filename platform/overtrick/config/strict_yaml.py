"""A stricter YAML parser: plain values only, numbers as in JSON, duplicate keys are errors."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from overtrick.core import UserError

LEVELS, VALUES = 40, 100_000
"""Most levels of nesting, and most values, of a YAML text."""
INTEGERS = range(-(2**63), 2**63)
_TAG = "tag:yaml.org,2002:"
_INT, _FLOAT = f"{_TAG}int", f"{_TAG}float"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)$")
_REAL = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?(e[-+]?\d+)?|\.\d+|\.(inf|nan))$", re.I | re.A)
_NOT_JSON = (_INT, _FLOAT, f"{_TAG}timestamp", f"{_TAG}value")  # forms that JSON does not have
_NUMERIC = list("-+.0123456789")  # characters with which a number begins


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML loader of the values that JSON has; it rejects duplicate keys.

    Numbers are decimal: 1e-5 is a float, and 1:30, 010, 0x10 and a date are text. A value that
    aliases such as `*name` repeat counts toward VALUES once for each use.
    """

    yaml_constructors = {  # noqa: RUF012 - the name and form that PyYAML expects
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None
        or tag.removeprefix(_TAG) in ("null", "bool", "int", "float", "str", "seq", "map")
    }
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in found if each[0] not in _NOT_JSON]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._values = 0
        self._size: dict[int, int] = {}  # by the id of a node: number of values

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Read `[` or `{`. Raises YAMLError at once if it is nested too deep."""
        self._check_level(self.flow_level)
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Build a node. Raises YAMLError for too many levels or values."""
        if self.check_event(yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._size:
                raise yaml.YAMLError(f"a value contains itself {node.start_mark}")
            self._values += self._size[id(node)]
        else:
            before = self._values
            self._values += 1
            self._level += 1
            self._check_level(self._level)
            node = super().compose_node(parent, index)
            self._level -= 1
            self._size[id(node)] = self._values - before
        if self._values > VALUES:
            raise yaml.YAMLError(f"it has more than {VALUES:,} values")
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Build the Python value of a node. Raises YAMLError."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, OverflowError, AttributeError):
            kind = node.tag.removeprefix(_TAG)
            said = f"'{str(node.value)[:50]}' cannot be read as {kind} {node.start_mark}"
            raise yaml.YAMLError(said) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Build the dictionary of a YAML mapping. Raises YAMLError for a duplicate key."""
        if not isinstance(node, yaml.MappingNode):
            raise yaml.YAMLError(f"not a mapping {node.start_mark}")
        keys = set()
        for key in (self.construct_object(key, deep=True) for key, _ in node.value):
            if not isinstance(key, str):
                raise yaml.YAMLError(f"key {key!r:.50} is not text: write quotes {node.start_mark}")
            if key in keys:
                raise yaml.YAMLError(f"key '{key}' stands twice {node.start_mark}")
            keys.add(key)
        return super().construct_mapping(node, deep)

    def _check_level(self, level: int) -> None:
        if level > LEVELS:
            raise yaml.YAMLError(f"it has more than {LEVELS} levels {self.get_mark()}")


def _integer(loader: _StrictLoader, node: Any) -> int:
    text = loader.construct_scalar(node)
    if not _INTEGER.match(text):
        raise ValueError(text)
    return int(text.replace("_", ""))


def _real(loader: _StrictLoader, node: Any) -> float:
    text = loader.construct_scalar(node).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _tag, _form, _make in ((_INT, _INTEGER, _integer), (_FLOAT, _REAL, _real)):
    _StrictLoader.add_implicit_resolver(_tag, _form, _NUMERIC)
    _StrictLoader.add_constructor(_tag, _make)


def parse_yaml(text: str) -> Any:
    """Parse YAML text into plain Python values: text, numbers, booleans, None, lists and mappings.

    Raises yaml.YAMLError.
    """
    try:
        return yaml.load(text, _StrictLoader)
    except (ValueError, OverflowError) as error:  # of the scanner, such as "\\UFFFFFFFF"
        raise yaml.YAMLError(str(error)) from None


def check_values(content: Any, source: str, key: str = "") -> None:
    """Raise UserError unless every value of plain data can be stored in a job file.

    These are text that UTF-8 can write, finite numbers, signed integers of 64 bits, booleans, None,
    lists, tuples, and mappings with such text as keys. `source`: the file, named in the message.
    `key`: dotted path of `content`.
    """
    if isinstance(content, dict):
        for name, value in content.items():
            if not isinstance(name, str) or _has_surrogates(name):
                raise UserError(f"'{key}' in {source}: key {name!r:.50} must be text in UTF-8")
            check_values(value, source, f"{key}.{name}" if key else name)
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            check_values(value, source, f"{key}.{place}" if key else str(place))
    elif isinstance(content, float) and not math.isfinite(content):
        raise UserError(f"'{key}' in {source}: input should be a finite number, not {content}")
    elif isinstance(content, int) and content not in INTEGERS:
        raise UserError(f"'{key}' in {source}: input should be an integer of at most 64 bits")
    elif isinstance(content, str) and _has_surrogates(content):
        raise UserError(f"'{key}' in {source}: input should be text that UTF-8 can write")
    elif not isinstance(content, str | int | float | None):
        raise UserError(f"'{key}' in {source}: a job cannot hold a {type(content).__name__}")


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)
