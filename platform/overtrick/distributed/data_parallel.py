"""Data-parallel training of one trainer by several learners (Ray Train), and reading of training
files on other nodes (Ray Data). Both libraries are imported only when they are used."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch.distributed
from torch import Tensor

from overtrick.core import Array, RunError, Trainer, concat_columns

PATIENCE = 30.0  # seconds in which learners must stop
WAITS = 9  # times that Ray Train waits another minute for occupied resources
POLL_INTERVAL = 1.0  # seconds between checks that the learners are alive


class LearnerShare(NamedTuple):
    """The share of one of n learners in the gradient steps that they take together.

    All learners start with the same weights and read the same batches in the same order. Each takes
    every n-th row of a batch; its loss is the sum over these rows divided by the rows of the full
    batch. The gradients summed over the learners are then those of a single learner, apart from
    rounding, and all learners keep the same weights.
    """

    rank: int = 0
    learners: int = 1

    def rows(self, batch: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return this learner's rows of a batch of columns (R, ...); there may be none."""
        if self.learners == 1:
            return batch
        return {name: column[self.rank :: self.learners] for name, column in batch.items()}

    def total(self, value: Tensor) -> Tensor:
        """Sum a tensor over all learners, in place; every learner must call it."""
        if self.learners > 1:
            torch.distributed.all_reduce(value)
        return value

    def add_gradients(self, params: Iterable[Tensor]) -> None:
        """Install hooks that sum the gradients of parameters over all learners."""
        if self.learners > 1:
            for param in params:
                hook: Any = param.register_post_accumulate_grad_hook
                hook(self._add)

    def _add(self, param: Tensor) -> None:
        """Sum the gradient of a parameter over all learners."""
        assert param.grad is not None
        self.total(param.grad)


SINGLE_LEARNER = LearnerShare()
MakeTrainer = Callable[[LearnerShare], Trainer]
"""Builds the trainer of one learner; must be picklable."""


class DataParallelTrainer:
    """Proxy of a trainer whose steps are taken by several learners on the cluster.

    It holds the metrics and the state that the first learner reports after each step. If a learner
    dies, `step` raises the error of Ray Train; training continues after loading the last state.
    """

    def __init__(
        self, make: MakeTrainer, iterations: int, learners: int, each: Mapping[str, float]
    ) -> None:
        """iterations: the last one. `each`: the resources of a learner by Ray's kind."""
        self._begin = partial(_Team, make, iterations, learners, dict(each))
        self._team: _Team | None = None
        self._state: dict[str, Array] = {}
        self.iteration = 0

    def step(self) -> dict[str, float]:
        """Return the metrics of the next iteration; start the learners if they are not running."""
        if self._team is None:
            self._team = self._begin(self._state)
        metrics, self._state = self._team.next_report()
        self.iteration = int(self._state["iteration"])
        return metrics

    def state(self) -> dict[str, Array]:
        """Return the trainer's state after the last step."""
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        """Stop the learners; the next step starts them with this state."""
        self.close()
        self._state, self.iteration = dict(state), int(state["iteration"])

    def close(self) -> None:
        """Stop the learners."""
        if self._team is not None:
            self._team.close()
            self._team = None


class _Team:
    """Running learners of one trainer: one run of Ray Train for all its steps.

    To start a run takes seconds. The learners run at most two steps ahead of the reports that have
    been read.
    """

    def __init__(
        self, make: MakeTrainer, iterations: int, learners: int, each: dict[str, float],
        state: Mapping[str, Array],
    ) -> None:  # fmt: skip
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.util.queue import Queue

        self._place = tempfile.TemporaryDirectory(prefix="overtrick-")  # Ray Train wants a folder
        self._reports = Queue(1, actor_options={"num_cpus": 0})
        self._error: BaseException | None = None
        trainer = TorchTrainer(
            partial(_learn, make, dict(state), iterations, self._reports),
            scaling_config=ScalingConfig(
                num_workers=learners, use_gpu="GPU" in each, resources_per_worker=each
            ),
            run_config=RunConfig(
                name="learners",
                storage_path=self._place.name,
                failure_config=FailureConfig(controller_failure_limit=WAITS),
            ),
        )
        self._thread = threading.Thread(target=self._run, args=(trainer,), daemon=True)
        self._thread.start()

    def _run(self, trainer: Any) -> None:
        """Run the learners to their end; the body of the thread."""
        try:
            trainer.fit()
        except Exception as error:  # raised by next_report
            self._error = error

    def next_report(self) -> tuple[dict[str, float], dict[str, Array]]:
        """Wait for the next step and return its metrics and state.

        Raises the error that ended the learners, if one did.
        """
        from ray.util.queue import Empty

        while True:
            alive = self._thread.is_alive()
            try:
                report = self._reports.get(timeout=POLL_INTERVAL)
            except Empty:
                if alive:
                    continue
                raise self._error or RuntimeError("the learners ended before their work") from None
            if isinstance(report, RunError):
                raise report
            return report

    def close(self) -> None:
        """Stop the learners and wait for their end."""
        self._reports.shutdown(force=True)  # a learner that is still training fails at its report
        self._thread.join(PATIENCE)
        self._place.cleanup()


def _learn(make: MakeTrainer, state: Mapping[str, Array], iterations: int, reports: Any) -> None:
    """Train as one of the learners; the first one puts its metrics and state into the queue."""
    from ray.train import get_context

    context = get_context()
    share = LearnerShare(context.get_world_rank(), context.get_world_size())
    trainer = make(share)
    if state:
        trainer.load(state)
    try:
        while trainer.iteration < iterations:
            metrics = trainer.step()
            if share.rank == 0:
                reports.put((metrics, trainer.state()))
    except RunError as error:  # all learners fail in the same way
        if share.rank == 0:
            reports.put(error)


def read_files(
    load: Callable[[str], dict[str, Array]], files: Sequence[str], readers: int
) -> Iterator[dict[str, Array]]:
    """Read the columns of files with Ray Data, several files ahead.

    `load`: reads one file as columns (R, ...) by name. `readers`: CPUs of the cluster that read.
    Rows are yielded in the order of the files, in batches of any size.
    """
    from ray.data import ExecutionResources, from_items

    def loaded(batch: Mapping[str, Array]) -> dict[str, Array]:
        return concat_columns([load(file) for file in batch["item"]])

    data = from_items(list(files), override_num_blocks=len(files))
    data.context.enable_progress_bars = data.context.print_on_execution_start = False
    options = data.context.execution_options
    options.preserve_order = True  # training depends on the order
    options.resource_limits = ExecutionResources(cpu=readers)
    rows = data.map_batches(loaded, batch_size=1, num_cpus=1)
    yield from rows.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=readers)
