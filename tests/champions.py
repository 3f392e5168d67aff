"""Retrain the champions, and measure their figures again.

`python -m tests.champions train [NAME ...]` runs the commands of a champion's card in the folder
build/champions/NAME and measures the new model beside the champion. With `--replace` the new model
takes the champion's place if it is better by more than two standard errors.

`python -m tests.champions check [NAME ...]` measures the figures of the cards again. The exit code
is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overtrick.core.files import write_text
from overtrick.storage import model_files
from overtrick.storage.champions import (
    CARD_FILE,
    FOLDER,
    Champion,
    champion_names,
    read_champion,
)

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "champions"
PROGRAM = "overtrick "
NORMAL_95 = 1.96  # half of a 95 % interval, in standard errors
ROUNDING = 1e-6  # relative difference of an exact figure on another processor
SMALLEST = 1e-9  # smaller differences of exact figures count as equal
BETTER_BY = 2  # standard errors of the difference
TRAINING_ONLY = ("baseline.",)  # begin names of the critic's weights in a model that only bids
LEAGUE_ONLY = ("member.",)  # begin names of past players, beside the policy of a league's model


class Figure(NamedTuple):
    """A champion's measured figure, with half of its 95 % interval; None: it is exact."""

    value: float
    interval: float | None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.champions", description=__doc__)
    parser.add_argument("action", choices=("train", "check"))
    parser.add_argument("names", nargs="*", help="champions; default: all")
    parser.add_argument("--replace", action="store_true", help="replace champions by better ones")
    options = parser.parse_args()
    champions = [read_champion(name) for name in options.names or champion_names()]
    if options.action == "train":
        for champion in champions:
            train(champion, options.replace)
    elif wrong := [each.name for each in champions if not check(each)]:
        sys.exit(f"other figures than on the cards: {', '.join(wrong)}")


def check(champion: Champion) -> bool:
    """Measure a champion's figure again; print both figures and return True if they agree."""
    new, old = measure(champion, champion.player), figure_of(champion)
    print_figures(champion, new.value)
    return abs(new.value - old.value) <= (old.interval or rounding(old))


def train(champion: Champion, replace: bool) -> None:
    """Retrain a champion and print both figures.

    `replace`: put the new model in the champion's place if it is better.
    """
    folder, card = BUILD / champion.name, champion.card
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in card["commands"]:
        print(f"{champion.name}: {command}", flush=True)
        run(command, folder)
    runs = sorted(folder.glob("runs/*/model"), key=os.path.getmtime)
    small = folder / "small"
    save_small(runs[-1] if runs else folder / "model", small, folder)
    new = measure(champion, str(small))
    print_figures(champion, new.value)
    if replace and is_better(new, figure_of(champion), card["larger_is_better"]):
        for file in (model_files.WEIGHTS, model_files.CARD):
            shutil.copy(small / file, FOLDER / champion.name / file)
        changed = {**card, "figure": new.value, "interval": new.interval}
        write_text(FOLDER / champion.name / CARD_FILE, json.dumps(changed, indent=1) + "\n")


def figure_of(champion: Champion) -> Figure:
    """Return the figure of a champion's card."""
    return Figure(champion.card["figure"], champion.card["interval"])


def rounding(exact: Figure) -> float:
    """Return the difference from an exact figure that may be rounding."""
    return max(abs(exact.value) * ROUNDING, SMALLEST)


def is_better(new: Figure, old: Figure, larger_is_better: bool) -> bool:
    """Return True if a figure is better by more than two standard errors, or than rounding."""
    error = math.hypot(new.interval or 0, old.interval or 0) / NORMAL_95
    gain = new.value - old.value if larger_is_better else old.value - new.value
    return gain > max(BETTER_BY * error, rounding(old))


def measure(champion: Champion, player: str) -> Figure:
    """Measure the figure of a champion's card for a player: the champion, or a model's folder."""
    wanted = champion.card["check"]
    BUILD.mkdir(parents=True, exist_ok=True)
    output = run(f"{wanted['command'].replace(champion.player, shlex.quote(player))} --json", BUILD)
    answer = json.loads(output.splitlines()[-1])
    interval = None
    if wanted["standard_error"] is not None:
        interval = NORMAL_95 * find(answer, wanted["standard_error"])
    elif wanted["interval"] is not None:
        low, high = find(answer, wanted["interval"])
        interval = (high - low) / 2
    return Figure(find(answer, wanted["figure"]), interval)


def find(answer: Any, key: str) -> Any:
    """Return the value at a dotted key, such as rows.0.made, of a command's JSON result."""
    for part in key.split("."):
        answer = answer[int(part) if isinstance(answer, list) else part]
    return answer


def run(command: str, folder: Path) -> str:
    """Run a shell command in a folder, `overtrick` with this Python; return its standard output."""
    if command.startswith(PROGRAM):
        command = f"{sys.executable} -m {command}"
    environment = {**os.environ, "OVERTRICK_RUNS": "runs"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"`{command}` failed with exit code {done.returncode}")
    return done.stdout


def save_small(model: Path, to: Path, folder: Path) -> None:
    """Copy a model's folder, with matrices in float16 instead of float32.

    Networks that only training used are left out. The job is stored without its MLflow store, and
    its networks compute in float32, so that they answer without torch on any processor.
    `folder`: the folder of the training; paths in the job become relative to it.
    """
    stored = model_files.load(model)
    plays_alone = any(name.startswith("policy.") for name in stored.weights)
    unused = TRAINING_ONLY + (LEAGUE_ONLY if plays_alone else ())
    weights = {
        name: each.astype(np.float16) if each.dtype == np.float32 and each.ndim > 1 else each
        for name, each in stored.weights.items()
        if not name.startswith(unused)
    }
    text = json.dumps({key: value for key, value in stored.job.items() if key != "track"})
    job = json.loads(text.replace(f'"{folder}/', '"'))
    if "bfloat16" in job.get("network", {}):
        job["network"]["bfloat16"] = False
    model_files.save(model_files.Model(weights, stored.game, job, stored.result), to)


def print_figures(champion: Champion, new: float) -> None:
    """Print a new measurement beside the figure of a champion's card."""
    card = champion.card
    figures = f"{new:.6g} {card['unit']}, {card['figure']:.6g} on its card"
    print(f"{champion.name}: {card['measure']} {figures}", flush=True)


if __name__ == "__main__":
    main()
