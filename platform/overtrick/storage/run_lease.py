"""Lease of a run in a bucket: the right of one process to write the run, until it expires.

The lease is an object beside the run's files. Its owner renews it while it works. Another process
may take over an expired lease. Every change is conditional on the version that was read, so of two
processes at most one succeeds. The clocks of all machines must agree within a few seconds.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from overtrick.core import RunError, UserError
from overtrick.storage.object_store import ObjectFolder, ObjectVersion

LEASE = "lease.json"  # the name of the object
SECONDS = 60.0  # from a renewal to the expiry; the variable OVERTRICK_LEASE_SECONDS overrides it
RENEWALS = 4  # tries before the expiry
PAUSE = 0.2  # seconds between two looks at another process's lease

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseRecord:
    """Content of the object: the owner in words, its token, and the time of the expiry."""

    owner: str
    token: str
    expires: float  # seconds since 1970


RECORD = TypeAdapter(LeaseRecord)


def lease_seconds() -> float:
    """Return the seconds from a renewal of a lease to its expiry. Raises UserError."""
    text = os.environ.get("OVERTRICK_LEASE_SECONDS") or str(SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise UserError(f"OVERTRICK_LEASE_SECONDS is '{text}': must be a number from 1 to 3600")
    return seconds


def read_lease(objects: ObjectFolder) -> tuple[LeaseRecord, ObjectVersion] | None:
    """Return the lease of a run with the version of its object; None if there is none.

    A damaged object counts as an expired lease.
    """
    try:
        content, found = objects.read_version(LEASE)
    except FileNotFoundError:
        return None
    try:
        return RECORD.validate_json(content), found.version
    except ValidationError:
        return LeaseRecord(owner="unknown", token="", expires=0.0), found.version


def is_leased(objects: ObjectFolder) -> bool:
    """Return whether a process holds the lease of a run."""
    found = read_lease(objects)
    return found is not None and found[0].expires > time.time()


def check_stored_lease(objects: ObjectFolder, token: str) -> None:
    """Read the lease of a run; raise RunError unless it has this token and has not expired."""
    found = read_lease(objects)
    if found is None or found[0].token != token or found[0].expires <= time.time():
        raise _lost(objects)


class RunLease:
    """The lease of a run, held by this process and renewed by a thread until it is released.

    `token`: the random text that identifies this holder.
    """

    def __init__(self, objects: ObjectFolder) -> None:
        """Acquire the lease; wait for the expiry of one that its holder no longer renews.

        Raises UserError if another process renews it.
        """
        self.objects, self.token = objects, secrets.token_hex(16)
        self._seconds = lease_seconds()
        self._expires = 0.0
        self._released = threading.Event()
        self._changing = threading.Lock()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._version: ObjectVersion | None = None  # None: this process does not hold the lease
        seen: LeaseRecord | None = None
        while self._version is None:
            found = read_lease(objects)
            if found is None or found[0].expires <= time.time():
                self._write(None if found is None else found[1])
                continue
            now = found[0]
            if seen is not None and seen != now:
                raise UserError(
                    f"run {objects.url} is still going on in another process ({now.owner})"
                )
            if seen is None:
                left = now.expires - time.time()
                log.warning("%s holds %s: waiting %.0f s", now.owner, objects.url, left)
            seen = now
            time.sleep(PAUSE)
        self._thread.start()

    def check_not_expired(self) -> None:
        """Raise RunError if the lease has expired, or if a renewal has found another holder.

        This asks the clock of this machine, not the bucket.
        """
        if self._version is None or time.time() >= self._expires:
            raise _lost(self.objects)

    def release(self) -> None:
        """Stop renewing, and let the lease expire now. An error is only logged."""
        self._released.set()
        self._thread.join()
        with self._changing:
            if self._version is not None and time.time() < self._expires:
                try:
                    self.objects.replace(LEASE, self._record(0.0), self._version)
                except RunError as error:  # it expires by itself
                    log.warning("the lease of %s is not released: %s", self.objects.url, error)
            self._version = None

    def _record(self, expires: float) -> bytes:
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        return json.dumps(asdict(LeaseRecord(owner, self.token, expires))).encode()

    def _write(self, version: ObjectVersion | None) -> None:
        """Write the lease on condition that the object has this version; None: that it is absent.

        Afterwards `_version` is the new version, or None if another process was faster.
        """
        expires = time.time() + self._seconds
        record = self._record(expires)
        if version is None:
            new = self.objects.create(LEASE, record)
        else:
            new = self.objects.replace(LEASE, record, version)
        if new is None:  # refused; maybe because the answer to an earlier request of ours was lost
            found = read_lease(self.objects)
            if found is not None and found[0].token == self.token:
                new, expires = found[1], found[0].expires
        self._version, self._expires = new, expires

    def _renew(self) -> None:
        """Renew the lease several times before each expiry; the function of the thread."""
        while not self._released.wait(self._seconds / RENEWALS):
            with self._changing:
                try:
                    self._write(self._version)
                except RunError as error:  # until it has expired, a later try may succeed
                    log.warning("the lease of %s is not renewed: %s", self.objects.url, error)
                if self._version is None:
                    log.warning("another process has taken over %s", self.objects.url)
                    return


def _lost(objects: ObjectFolder) -> RunError:
    """Return the error for a lease that this process no longer holds."""
    return RunError(
        f"this process has lost the lease of {objects.url}: another one may have taken the run over"
    )
