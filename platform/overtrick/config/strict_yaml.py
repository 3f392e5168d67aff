"""A stricter YAML parser: duplicate keys are errors, and `1e-5` is a number."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML loader that rejects duplicate keys and reads 1e-5 as a float, as JSON does."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Build the dictionary of a YAML mapping. Raises YAMLError for a duplicate key."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"key '{key}' stands twice {node.start_mark}")
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def parse_yaml(text: str) -> Any:
    """Parse YAML text into plain Python values. Raises yaml.YAMLError."""
    return yaml.load(text, _StrictLoader)
