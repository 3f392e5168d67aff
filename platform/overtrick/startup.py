"""What must stand in the environment before numpy, torch and Ray are imported."""

from __future__ import annotations

import os
import secrets

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MALLOC_THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 256 << 20}
"""Bytes. Shards ask for the same arrays again and again: glibc's malloc, which would hand each
back to the kernel and have its pages filled with zeros anew, keeps so much of what is freed."""
GENERATED: set[str] = set()  # variables of a local Ray that nobody had set


def prepare() -> None:
    """Set what is not set: one thread a library, a quiet Ray that only this run can join.

    Learner and workers share the cores, and sums come out the same only if as many threads
    share them every time. A local Ray listens on all interfaces, so it asks for a token.
    """
    for name in THREADS:
        os.environ.setdefault(name, "1")
    for (
        name,
        size,
    ) in MALLOC_THRESHOLDS.items():  # read when a process begins: it is the workers who gain
        os.environ.setdefault(name, str(size))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if "RAY_ADDRESS" not in os.environ:
        for name, value in (("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", secrets.token_hex(32))):
            if name not in os.environ:
                os.environ[name] = value
                GENERATED.add(name)


def drop_generated_token() -> None:
    """Take back what was made up for a local Ray: a cluster wants the token that it was given."""
    if "RAY_AUTH_TOKEN" in GENERATED:
        del os.environ["RAY_AUTH_TOKEN"]
        if "RAY_AUTH_MODE" in GENERATED and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            del os.environ["RAY_AUTH_MODE"]
    GENERATED.clear()
