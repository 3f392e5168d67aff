"""Device on which a learner computes its networks: the CPU, or a GPU that its job reserved.

Learners and policies create their tensors on torch's default device. Numpy arrays enter by
`torch.as_tensor` and leave by `Tensor.numpy(force=True)`, so that weights, games and checkpoints
are arrays, whatever the device.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from overtrick.core.lazy_modules import torch

GPU = "cuda"  # the first visible one; Ray shows a process those that it reserved
_chosen = threading.local()  # torch's default device belongs to a thread, too


def use_gpu(wanted: bool) -> None:
    """Set torch's default device in this thread: the GPU if `wanted`, otherwise the CPU.

    If this thread never used a GPU, `use_gpu(False)` does nothing.
    """
    if wanted or gpu_in_use():
        torch.set_default_device(GPU if wanted else None)
        _chosen.gpu = wanted


def gpu_in_use() -> bool:
    """Return whether `use_gpu(True)` made a GPU the default device of this thread."""
    return getattr(_chosen, "gpu", False)


@contextmanager
def on_cpu() -> Iterator[None]:
    """Context manager in which new tensors are on the CPU, also after `use_gpu(True)`.

    It unsets torch's default device: while one is set, every torch function is slower.
    """
    before = gpu_in_use()
    use_gpu(False)
    try:
        yield
    finally:
        use_gpu(before)
