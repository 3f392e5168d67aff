"""Other libraries in Python environments of their own, made by `make peers`.

LiteEFG is compiled at its installation, nashbench needs a newer Python, and OpenSpiel's PSRO needs
linear programming of other libraries, so none of them is a dependency of the tests.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from overtrick.core import Array, UserError
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree

ENVIRONMENTS = Path("build/peers")
SCRIPTS = Path(__file__).parent / "peer_scripts"


def ask(peer: str, script: str, *arguments: str) -> dict[str, Any]:
    """Run a script of `peer_scripts` in the environment of a peer; return what it prints as JSON.

    Raises UserError if the environment does not exist.
    """
    python = ENVIRONMENTS / peer / "bin" / "python"
    if not python.exists():
        raise UserError(f"{peer} is not installed: run make peers")
    done = subprocess.run(
        [python, SCRIPTS / f"{script}.py", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def cpu_rate(work: Callable[[int], object], units: int) -> float:
    """Return the units of work done in a second of the processor."""
    began = process_time()
    work(units)
    return units / (process_time() - began)


def exploitability_rate(whole: Tree, sigma: Array, calls: int) -> float:
    """Return our computations of the exploitability of a strategy (N, A) in a CPU second."""

    def evaluate(calls: int) -> None:
        for _ in range(calls):
            best_response.exploitability(whole, sigma)

    return cpu_rate(evaluate, calls)


def rates_in_turns(
    ours: Callable[[], float], peer: Callable[[], dict[str, Any]], key: str, rounds: int = 3
) -> tuple[float, float, dict[str, Any]]:
    """Measure ours and the peer in turns, so that other load hits both.

    Returns the median rates of ours and of the peer, and the peer's last answer. `key`: of the rate
    in an answer.
    """
    rates, answers = zip(*((ours(), peer()) for _ in range(rounds)), strict=True)
    return median(rates), median(answer[key] for answer in answers), answers[-1]
