"""Measure PSRO with exact responses in Leduc beside OpenSpiel's: rounds a second, and NashConv."""

from __future__ import annotations

from time import process_time

from tests.bench.measure import Result
from tests.bench.peers import ask

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.training.registry import JOBS, TRAINERS

ROUNDS = 30
GAMES = 100
"""Games with which OpenSpiel estimates each payoff of the meta-game; ours are exact."""
SHOWN = (10, 20, 30)
JOB = {"trainer": "psro", "game": "leduc_textbook", "evaluate": {"every": 1000}}


def run() -> Result:
    """Run the same number of rounds with both; the ratio is that of rounds a second."""
    job = job_file.parse({**JOB, "stop": {"iterations": ROUNDS + 1}}, JOBS, "this bench")
    _rounds(job, 1)  # compiles
    gaps, seconds = _rounds(job, ROUNDS)
    theirs = ask("openspiel", "openspiel_psro", str(ROUNDS), str(GAMES))
    ours, peer = ROUNDS / seconds, ROUNDS / theirs["seconds"]
    reached = ", ".join(
        f"{k} {gaps[k - 1]:.2f} and {theirs['nash_convs'][k - 1]:.2f}" for k in SHOWN
    )
    return Result(
        name="psro_leduc",
        work=f"PSRO in Leduc, exact responses and Nash, seconds of the processor; NashConv in "
        f"chips after round {reached}",
        ours=ours,
        peer=peer,
        peer_name=f"OpenSpiel 2.0.2, psro_v2, {GAMES} games a payoff",
        unit="rounds/CPU s",
        ratio=ours / peer,
        goal=1,
    )


def _rounds(job: job_file.Job, rounds: int) -> tuple[list[float], float]:
    """Run some rounds; return NashConv after each, and the seconds of the processor."""
    trainer = TRAINERS["psro"].trainer(job, LocalPool())
    began = process_time()
    gaps = [trainer.step()["nash_conv"] for _ in range(rounds)]
    return gaps, process_time() - began
