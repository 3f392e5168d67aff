"""Work that is spread over a cluster: the steps of one trainer taken by several learners (Ray
Train), files read by other nodes (Ray Data). Both are imported only where somebody spreads."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch.distributed
from torch import Tensor

from overtrick.core import Array, RunError, Trainer, concat_columns

PATIENCE = 30.0  # seconds that learners have to end
WAITS = 9  # times that Ray Train waits once more, a minute each, for places that are taken
LOOK = 1.0  # seconds between looks at whether they still live


class LearnerShare(NamedTuple):
    """The part of one of several learners in their common steps.

    All begin with the same weights and read the same batches in the same order. Of each batch a
    learner takes every n-th row, and its loss is the sum over those by the rows of the whole batch,
    so that gradients summed over all learners are those of one learner alone, but for the order of
    sums; and so all weights stay the same.
    """

    rank: int = 0
    learners: int = 1

    def rows(self, batch: Mapping[str, Array]) -> Mapping[str, Array]:
        """Its rows of a batch; there may be none."""
        if self.learners == 1:
            return batch
        return {name: column[self.rank :: self.learners] for name, column in batch.items()}

    def total(self, value: Tensor) -> Tensor:
        """The sum over all learners, in place; each of them must ask."""
        if self.learners > 1:
            torch.distributed.all_reduce(value)
        return value

    def add_gradients(self, params: Iterable[Tensor]) -> None:
        """From now on the gradients of these are summed over all learners when they are made."""
        if self.learners > 1:
            for param in params:
                hook: Any = param.register_post_accumulate_grad_hook
                hook(self._add)

    def _add(self, param: Tensor) -> None:
        assert param.grad is not None
        self.total(param.grad)


SINGLE_LEARNER = LearnerShare()
Make = Callable[[LearnerShare], Trainer]
"""What makes a trainer that takes such a part; it must be picklable."""


class DataParallelTrainer:
    """A trainer, of which several learners take every step together, up to its last iteration.

    Here are only the metrics and the state that the first of them tells after each step. If one of
    them dies, a step raises the error of Ray Train, and who loads the last state goes on from it.
    """

    def __init__(
        self, make: Make, iterations: int, learners: int, each: Mapping[str, float]
    ) -> None:
        """each: the resources of a learner, as Ray counts them."""
        self._begin = partial(_Team, make, iterations, learners, dict(each))
        self._team: _Team | None = None
        self._state: dict[str, Array] = {}
        self.iteration = 0

    def step(self) -> dict[str, float]:
        if self._team is None:
            self._team = self._begin(self._state)
        metrics, self._state = self._team.told()
        self.iteration = int(self._state["iteration"])
        return metrics

    def state(self) -> dict[str, Array]:
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        self.close()
        self._state, self.iteration = dict(state), int(state["iteration"])

    def close(self) -> None:
        if self._team is not None:
            self._team.close()
            self._team = None


class _Team:
    """Learners at work, as one run of Ray Train: to start one takes seconds, so that all steps are
    one. They wait for their news to be taken, and are at most two steps ahead."""

    def __init__(
        self, make: Make, iterations: int, learners: int, each: dict[str, float],
        state: Mapping[str, Array],
    ) -> None:  # fmt: skip
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.util.queue import Queue

        self._place = tempfile.TemporaryDirectory(prefix="overtrick-")  # nothing is kept there
        self._news = Queue(1, actor_options={"num_cpus": 0})
        self._error: BaseException | None = None
        trainer = TorchTrainer(
            partial(_learn, make, dict(state), iterations, self._news),
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
        try:
            trainer.fit()
        except Exception as error:  # whoever waits for news raises it
            self._error = error

    def told(self) -> tuple[dict[str, float], dict[str, Array]]:
        """The metrics and the state after the next step. Raises what ended the learners."""
        from ray.util.queue import Empty

        while True:
            alive = self._thread.is_alive()
            try:
                news = self._news.get(timeout=LOOK)
            except Empty:
                if alive:
                    continue
                raise self._error or RuntimeError("the learners ended before their work") from None
            if isinstance(news, RunError):
                raise news
            return news

    def close(self) -> None:
        self._news.shutdown(force=True)  # who is not done fails at the next news
        self._thread.join(PATIENCE)
        self._place.cleanup()


def _learn(make: Make, state: Mapping[str, Array], iterations: int, news: Any) -> None:
    """What each learner does; the first tells."""
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
                news.put((metrics, trainer.state()))
    except RunError as error:  # all fail alike
        if share.rank == 0:
            news.put(error)


def read(
    load: Callable[[str], dict[str, Array]], files: Sequence[str], readers: int
) -> Iterator[dict[str, Array]]:
    """The columns of files, in their order but cut anywhere, read by so many CPUs of the cluster
    (Ray Data) some files ahead."""
    from ray.data import ExecutionResources, from_items

    def loaded(batch: Mapping[str, Array]) -> dict[str, Array]:
        return concat_columns([load(file) for file in batch["item"]])

    data = from_items(list(files), override_num_blocks=len(files))
    data.context.enable_progress_bars = data.context.print_on_execution_start = False
    options = data.context.execution_options
    options.preserve_order = True  # the seed decides
    options.resource_limits = ExecutionResources(cpu=readers)
    rows = data.map_batches(loaded, batch_size=1, num_cpus=1)
    yield from rows.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=readers)
