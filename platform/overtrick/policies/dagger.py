"""Policy that mixes a teacher and a student by game, and records the teacher's actions (DAgger)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, Policy, PolicySession

TEACHER_ACTION = "teacher_action"
"""Key of the teacher's actions in Actions.extras and Trajectories.extras: (D,) or (D, A)."""


class DaggerPolicy:
    """Play some games with a teacher and the others with a student; record the teacher's actions.

    The teacher observes every game, also those that the student plays, so that the memory of a
    recurrent teacher is right.

    `teacher_share`: probability that the teacher plays a game.
    """

    remembers = True

    def __init__(self, student: Policy, teacher: Policy, teacher_share: float) -> None:
        self.student, self.teacher, self.teacher_share = student, teacher, teacher_share

    def start(self, games: int, rng: Generator) -> _DaggerSession:
        """Start G games: draw which of them the teacher plays."""
        draw_rng, student_rng, teacher_rng = rng.spawn(3)
        teacher_plays = draw_rng.random(games) < self.teacher_share
        student, teacher = (
            self.student.start(games, student_rng), self.teacher.start(games, teacher_rng)
        )  # fmt: skip
        return _DaggerSession(student, teacher, teacher_plays)


class _DaggerSession:
    """Session of DaggerPolicy; `teacher_plays` (G,) is True in the games that the teacher plays."""

    def __init__(
        self, student: PolicySession, teacher: PolicySession, teacher_plays: Array
    ) -> None:
        self.student, self.teacher, self.teacher_plays = student, teacher, teacher_plays

    def act(self, observations: Observations) -> Actions:
        """Return the actions of teacher or student; `extras` has the teacher's for every row."""
        student, teacher = self.student.act(observations), self.teacher.act(observations)
        mask = self.teacher_plays[observations.game]
        by_component = mask.reshape(-1, *(1,) * (student.action.ndim - 1))
        return replace(
            student,
            action=np.where(by_component, teacher.action, student.action),
            logp=np.where(mask, teacher.logp, student.logp),
            extras={TEACHER_ACTION: teacher.action},
        )
