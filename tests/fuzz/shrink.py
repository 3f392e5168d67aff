"""Make an input with a finding smaller."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

from tests.fuzz.inputs import Files
from tests.fuzz.pool import LONGEST
from tests.fuzz.target import Target, feed

TRIES = 400


def smaller(target: Target, files: Files) -> Files:
    """Return a smaller input with the same finding: fewer files, fewer bytes in each.

    Raises ValueError if the input has no finding.
    """
    wanted = _finding_signature(target, files)
    if not wanted:
        raise ValueError(f"'{target.name}' reads or refuses this input: there is nothing to shrink")
    left = TRIES

    def same(changed: Files) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and _finding_signature(target, changed) == wanted

    kept = dict(files)
    for name in list(kept):
        without = {key: content for key, content in kept.items() if key != name}
        if same(without):
            kept = without
    for name in list(kept):
        kept[name] = _fewer_bytes(kept[name], lambda part, name=name: same({**kept, name: part}))
    return kept


def _finding_signature(target: Target, files: Files) -> str:
    """Return the exception of an input's finding and its place in the code; empty if none."""
    return finding(target, files).partition(": ")[0]


def finding(target: Target, files: Files) -> str:
    """Feed an input in a process of its own and describe its finding; empty if there is none.

    The death of the process is a finding, and so are more than LONGEST seconds.
    """
    context = multiprocessing.get_context("fork")
    answer, theirs = context.Pipe(duplex=False)
    process = context.Process(target=lambda: theirs.send(feed(target, files)))
    process.start()
    theirs.close()
    try:
        if not answer.poll(LONGEST):
            return f"more than {LONGEST:g} s"
        outcome = answer.recv()
        return outcome.text if outcome.status == "finding" else ""
    except EOFError:
        process.join()
        return f"the process died ({process.exitcode})"
    finally:
        process.kill()
        process.join()


def _fewer_bytes(content: bytes, same: Callable[[bytes], bool]) -> bytes:
    """Delete pieces of a file, ever smaller ones, while `same` is true of what remains."""
    size = len(content) // 2
    while size:
        at = 0
        while at < len(content):
            shorter = content[:at] + content[at + size :]
            if same(shorter):
                content = shorter
            else:
                at += size
        size //= 2
    return content
