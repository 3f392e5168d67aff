"""Print every setting of job files and of generated card abstractions, with its default and bounds.

After a wanted change: `python -m tests.flow.job_settings > tests/fixtures/job_settings.txt`.
"""

from __future__ import annotations

import json
from pathlib import Path

from overtrick.comparison.comparison_job import ComparisonJob
from overtrick.datasets.card_abstraction_build import AbstractionConfig
from overtrick.training.registry import JOBS

WORDS = ("title", "description")  # parts of a setting that change nothing


def settings() -> list[str]:
    """Return one line for each setting: its section and key, type, default and bounds.

    Paths in the current folder are written as ./PATH.
    """
    found = set()
    for model in (*JOBS.values(), ComparisonJob, AbstractionConfig):
        schema = model.model_json_schema()
        for name, section in {model.__name__: schema, **schema.get("$defs", {})}.items():
            for key, setting in section.get("properties", {}).items():
                kept = {word: value for word, value in setting.items() if word not in WORDS}
                text = json.dumps(kept, sort_keys=True).replace(f'"{Path.cwd()}/', '"./')
                found.add(f"{name}.{key} {text}")
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(settings()))
