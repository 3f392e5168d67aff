"""Set environment variables that must be set before numpy, torch and Ray are imported."""

from __future__ import annotations

import os
import secrets
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MALLOC_THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 256 << 20}
"""Thresholds of glibc's malloc in bytes. Workers allocate arrays of equal sizes again and again;
with these, freed memory is reused instead of returned to the kernel and zeroed again."""
GENERATED: dict[str, str] = {}  # variables for a local Ray that `prepare` has set, with values


def prepare() -> None:
    """Set missing environment variables: threads, thresholds of malloc, and options of Ray.

    Numerical libraries use one thread, for two reasons: learner and workers share the cores, and
    the rounding of float sums depends on the number of threads. A local Ray listens on all network
    interfaces, so it gets a random token, and only this run can join it.
    """
    for name in THREADS:
        os.environ.setdefault(name, "1")
    for name, size in MALLOC_THRESHOLDS.items():  # read when a process starts, here by workers
        os.environ.setdefault(name, str(size))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # where Ray is imported already, as in its workers, the settings would come too late
    if "RAY_ADDRESS" not in os.environ and "ray" not in sys.modules:
        for name, value in (("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", secrets.token_hex(32))):
            if name not in os.environ:
                os.environ[name] = GENERATED[name] = value


def drop_generated_token() -> None:
    """Unset the token that `prepare` generated for a local Ray, before a cluster is contacted.

    A token that was set since then stays.
    """
    token = GENERATED.pop("RAY_AUTH_TOKEN", None)
    if token is not None and os.environ.get("RAY_AUTH_TOKEN") == token:
        del os.environ["RAY_AUTH_TOKEN"]
        if "RAY_AUTH_MODE" in GENERATED and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            del os.environ["RAY_AUTH_MODE"]
    GENERATED.clear()
