"""Device on which this process computes neural networks: the CPU, or a GPU that its job reserved.

Learners and policies create their tensors on torch's default device. Numpy arrays enter by
`torch.as_tensor` and leave by `Tensor.numpy(force=True)`, so that weights, games and checkpoints
are arrays that know no device.
"""

from __future__ import annotations

import threading

from overtrick.core.lazy_modules import torch

GPU = "cuda"  # the first GPU that Ray shows to this process
_chosen = threading.local()  # torch's default device belongs to a thread, too


def use_gpu(wanted: bool) -> None:
    """Make a GPU torch's default device in this thread, or the CPU again.

    Without a GPU before, the CPU stays the default, and torch is not imported.
    """
    if wanted or getattr(_chosen, "gpu", False):
        torch.set_default_device(GPU if wanted else None)
        _chosen.gpu = wanted
