"""Data-parallel training with Ray Train, and reading of training files with Ray Data.

Both libraries are imported only when they are used.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from overtrick.core import Array, RunError, Trainer, concat_columns
from overtrick.core.lazy_modules import torch

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE = 30.0  # seconds in which learners must stop
WAITS = 9  # times that Ray Train waits another minute for occupied resources
POLL_INTERVAL = 1.0  # seconds between checks that the learners are alive


class LearnerShare(NamedTuple):
    """One learner's share of the gradient steps that n data-parallel learners compute together.

    All learners start with the same weights and read the same batches in the same order. Each
    learner takes every n-th row of a batch. Its loss is the sum over these rows divided by the
    number of rows in the full batch. So the gradients, summed over learners, equal those of a
    single learner up to rounding, and all learners keep the same weights.
    """

    rank: int = 0
    learners: int = 1

    def rows(self, batch: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the rows of a training batch from which this learner computes its gradient.

        `batch`: maps the name of each column to an array (R, ...) of R rows. If the batch has fewer
        rows than there are learners, the last learners get no rows.
        """
        if self.learners == 1:
            return batch
        return {name: column[self.rank :: self.learners] for name, column in batch.items()}

    def total(self, value: Tensor) -> Tensor:
        """Sum a tensor over all learners in place, and return the tensor.

        This is a collective operation (all-reduce): every learner must call the method.
        """
        if self.learners > 1:
            torch.distributed.all_reduce(value)
        return value

    def add_gradients(self, params: Iterable[Tensor]) -> None:
        """Install hooks that sum the gradients of `params` over all learners."""
        if self.learners > 1:
            for param in params:
                hook: Any = param.register_post_accumulate_grad_hook
                hook(self._add)

    def _add(self, param: Tensor) -> None:
        """Replace the gradient of a parameter by its sum over all learners.

        `add_gradients` installs this method as a hook, which PyTorch calls after the gradient is
        computed.
        """
        assert param.grad is not None
        self.total(param.grad)


SINGLE_LEARNER = LearnerShare()
MakeTrainer = Callable[[LearnerShare], Trainer]
"""Builds the trainer of one learner; must be picklable."""


class DataParallelTrainer:
    """Trainer whose iterations are computed by several learners on the cluster.

    This object holds the metrics and the trainer state that the first learner reports after each
    iteration. If a learner dies, `step` raises the error of Ray Train. Training can continue after
    `load` with the last state.
    """

    def __init__(
        self, make: MakeTrainer, iterations: int, learners: int, each: Mapping[str, float]
    ) -> None:
        """Set up the trainer. The processes of the learners start at the first call of `step`.

        `make`: builds the trainer of one learner. `iterations`: the last iteration. `learners`:
        number of learners. `each`: the resources of one learner: the amount of CPU, GPU and so on.
        """
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
        """Return the trainer state after the last step, as arrays by name."""
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        """Stop the learners; the next step starts them again from this trainer state."""
        self.close()
        self._state, self.iteration = dict(state), int(state["iteration"])

    def close(self) -> None:
        """Stop the learners."""
        if self._team is not None:
            self._team.close()
            self._team = None


class _Team:
    """The running learners of one data-parallel trainer, as a single run of Ray Train.

    Starting a run of Ray Train takes seconds, so the learners keep running between iterations. They
    are at most two iterations ahead of the iteration that `next_report` last returned.
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
        """Run Ray Train until the learners end; the function of the background thread.

        `trainer`: Ray's TorchTrainer. An error is stored for `next_report`, which raises it.
        """
        try:
            trainer.fit()
        except Exception as error:  # raised by next_report
            self._error = error

    def next_report(self) -> tuple[dict[str, float], dict[str, Array]]:
        """Wait for the next iteration and return its metrics and the trainer state after it.

        If an error ended the learners, raises that error.
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
        """Stop the learners and wait until they have ended."""
        self._reports.shutdown(force=True)  # a learner that is still training fails at its report
        self._thread.join(PATIENCE)
        self._place.cleanup()


def _learn(make: MakeTrainer, state: Mapping[str, Array], iterations: int, reports: Any) -> None:
    """Train as one of the learners, from a trainer state to the last iteration.

    `state`: the state to start from; empty: start a new training. `iterations`: the last iteration.
    The first learner puts the metrics and the trainer state of each iteration into the queue
    `reports`.
    """
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
    """Yield the contents of training files in order, read by Ray Data several files ahead.

    `load`: reads one file and returns its columns, arrays (R, ...) of R rows by name. `readers`:
    number of cluster CPUs that read. The number of rows in each yielded dictionary varies.
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
