"""Objects of a bucket appear whole or not at all; of several writers at most one succeeds."""

from __future__ import annotations

import gc
import io
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import requests
from command_process import environment
from fsspec.implementations.local import LocalFileSystem
from obstore.exceptions import GenericError
from pyarrow import fs
from tests.bucket_server import Connection, client_settings

from overtrick.core import RunError, UserError
from overtrick.storage import bucket_copy, object_store, run_lease
from overtrick.storage.bucket_filesystem import bucket_filesystem
from overtrick.storage.object_store import (
    ObjectFolder,
    ObjectVersion,
    check_url,
    split_url,
    without_file_scheme,
)
from overtrick.storage.run_lease import LEASE, RunLease, check_stored_lease, is_leased

RACES = 100
RACER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from overtrick.core import UserError
from overtrick.storage.object_store import ObjectFolder
from overtrick.storage.run_lease import RunLease

def race(url):
    try:
        return RunLease(ObjectFolder(url)).token
    except UserError:
        return ""

sys.stdin.readline()  # both processes begin together
with ThreadPoolExecutor(20) as threads:
    tokens = list(threads.map(race, sys.argv[1:]))
print(*("won" if token else "lost" for token in tokens), flush=True)
sys.stdin.readline()  # hold all leases until both have reported
"""


@pytest.fixture
def folder(bucket: str) -> ObjectFolder:
    return ObjectFolder(bucket)


def test_objects_are_written_read_listed_and_deleted(folder: ObjectFolder) -> None:
    folder.write("a/b.txt", b"first")
    before = folder.stat("a/b.txt")
    folder.write("a/b.txt", b"second")
    assert folder.read("a/b.txt") == b"second"
    assert before is not None
    assert folder.read_version("a/b.txt")[1].version != before.version
    folder.write("c", b"")
    assert {name: each.size for name, each in folder.objects().items()} == {"a/b.txt": 6, "c": 0}
    assert folder.folders() == ["a"]
    assert list(folder.below("a").objects()) == ["b.txt"]
    folder.delete(["a/b.txt", "never there"])
    assert folder.stat("a/b.txt") is None
    with pytest.raises(FileNotFoundError):
        folder.read("a/b.txt")


def test_an_object_is_created_once_and_replaced_in_its_version_only(folder: ObjectFolder) -> None:
    first = folder.create("x", b"1")
    assert first is not None
    assert folder.create("x", b"2") is None
    second = folder.replace("x", b"3", first)
    assert second is not None
    assert folder.replace("x", b"4", first) is None
    assert folder.replace("never there", b"4", first) is None
    assert folder.read("x") == b"3"


def test_a_request_whose_connection_breaks_is_repeated(
    folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_store, asked = folder._store, []

    class Breaking:
        """An object store that answers every third request."""

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            if len(asked) % 3:
                raise GenericError("error sending request")
            return getattr(true_store, name)

    monkeypatch.setattr(object_store, "BROKEN_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(ObjectFolder, "_store", Breaking())
    assert folder.create("x", b"1") is not None
    folder.write("x", b"2")
    assert folder.read("x") == b"2"
    assert folder.stat("x") is not None
    assert list(folder.objects()) == ["x"]
    assert folder.folders() == []
    folder.delete(["x"])
    assert folder.stat("x") is None
    methods = ["put", "put", "get", "head", "list", "list_with_delimiter", "delete", "head"]
    assert asked == [name for name in methods for _ in range(3)]

    monkeypatch.setattr(object_store, "BROKEN_PAUSES", (0.0,))
    with pytest.raises(RunError, match="error sending request"):
        folder.write("x", b"3")


@pytest.mark.parametrize(
    "url",
    [
        "http://bucket/runs",
        "s3:/bucket",
        "s3://",
        "s3://bucket/runs?x=1",
        "ftp://a/b",
        "s3://bucket/a/../b",
        "gs://bucket/..",
        "s3://bucket//a",
        "s3://bucket/./a",
    ],
)
def test_another_url_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(UserError, match=r"^--out is the URL .*: name s3://BUCKET/FOLDER, gs://"):
        check_url(url, "--out")


def test_urls_are_split_and_file_urls_are_paths() -> None:
    assert split_url("s3://bucket/a/b/", "--out") == (ObjectFolder("s3://bucket/a"), "b")
    assert split_url("gs://bucket/..a", "--out") == (ObjectFolder("gs://bucket"), "..a")
    with pytest.raises(UserError, match=r"^--out is the bucket s3://bucket: name a folder in it"):
        split_url("s3://bucket/", "--out")
    assert without_file_scheme("file:///my%20runs/x") == "/my runs/x"
    assert without_file_scheme("runs/file") == "runs/file"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, str | None]]]:
    """Pretend to be Google's store; return the list of requests: method, path, and condition.

    It has one object, x, in generation 17.
    """
    seen = []

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            condition = self.headers.get("x-goog-if-generation-match")
            seen.append((self.command, self.path, condition))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            missing = self.command == "DELETE" and not self.path.endswith("/x")
            refused = self.command == "PUT" and condition not in (None, "17")
            self.send_response(404 if missing else 412 if refused else 200)
            self.send_header("etag", '"seventeen"')
            self.send_header("x-goog-generation", "17" if self.command == "GET" else "18")
            self.send_header("last-modified", "Thu, 26 Nov 2026 12:00:00 GMT")
            self.send_header("content-length", "7" if self.command == "GET" else "0")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(b"content")

        do_GET = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    account = {
        "gcs_base_url": place, "disable_oauth": True, "client_email": "", "private_key": "",
        "private_key_id": "",
    }  # fmt: skip
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    object_store._open.cache_clear()
    yield seen
    object_store._open.cache_clear()
    server.shutdown()


def test_google_gets_generations_as_conditions(google: list[tuple[str, str, str | None]]) -> None:
    """A stub: its answers are as documented, but no server of Google's was asked."""
    folder = ObjectFolder("gs://bucket/runs")
    content, stored = folder.read_version("x")
    assert (content, stored.version.generation) == (b"content", "17")
    new = folder.replace("x", b"new", stored.version)
    assert new is not None
    assert new.generation == "18"
    assert folder.replace("x", b"late", new) is None
    assert folder.create("x", b"late") is None
    folder.delete(["never there", "x"])
    conditions = [(method, condition) for method, _, condition in google]
    assert conditions == [
        ("GET", None), ("PUT", "17"), ("PUT", "18"), ("PUT", "0"), ("DELETE", None),
        ("DELETE", None),
    ]  # fmt: skip


def test_marks_of_folders_are_no_files(folder: ObjectFolder, bucket_port: int) -> None:
    """Some programs mark a folder by an empty object whose name ends with a slash."""
    place = f"http://127.0.0.1:{bucket_port}/{folder.url.removeprefix('s3://')}"
    for name in ("/", "/figures/"):
        requests.put(f"{place}{name}", timeout=30).raise_for_status()
    folder.write("figures/a.png", b"1")
    copy = bucket_copy.local_copy(folder.url, "the data")
    assert [file.name for file in bucket_copy._uploaded_files(copy)] == ["a.png"]


def test_a_missing_bucket_is_one_line(folder: ObjectFolder) -> None:
    with pytest.raises(RunError, match=r"^cannot access s3://never-there/x: ") as raised:
        ObjectFolder("s3://never-there").write("x", b"")
    assert "\n" not in str(raised.value)


@pytest.fixture
def connection(
    bucket_port: int, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    way = Connection(bucket_port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", client_settings(way.port)["AWS_ENDPOINT_URL"])
    object_store._open.cache_clear()
    yield way
    way.close()
    object_store._open.cache_clear()


def content_at_the_server(port: int, url: str) -> bytes | None:
    """Return the content of an object, asked for in another way; None if there is none."""
    answer = requests.get(f"http://127.0.0.1:{port}/{url.removeprefix('s3://')}", timeout=30)
    assert answer.status_code in (200, 404)
    return answer.content if answer.ok else None


def test_no_half_object_is_ever_read(
    connection: Connection, folder: ObjectFolder, bucket_port: int, rng: np.random.Generator
) -> None:
    """The server dies 20 times, after a random part of an upload, and comes back."""
    found = []
    for k in range(20):
        content = rng.bytes(int(rng.integers(1, 4_000_000)))
        url = f"{folder.url}/{k}"
        connection.cut_after(int(rng.integers(len(content) + 500)))

        def come_back(url: str = url) -> None:
            found.append(content_at_the_server(bucket_port, url))
            connection.mend()

        later = threading.Timer(0.2, come_back)
        later.start()
        folder.write(str(k), content)
        later.join()
        assert found[k] in (None, content)
        assert folder.read(str(k)) == content
    assert found.count(None) > 10  # uploads were indeed cut
    assert len(folder.objects()) == 20


def test_a_server_that_does_not_come_back_is_one_line(
    connection: Connection, folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "RETRIES", 1)
    connection.cut_after(0)
    with pytest.raises(RunError, match=rf"^cannot access {folder.url}/x: ") as raised:
        folder.write("x", b"content")
    assert "\n" not in str(raised.value)
    connection.mend()
    assert folder.stat("x") is None


def test_a_copy_that_fails_leaves_no_object(folder: ObjectFolder, tmp_path: Path) -> None:
    lease = RunLease(folder)
    store = bucket_filesystem(folder.url, lease.token)
    (tmp_path / "checkpoint_1").write_bytes(b"x" * 100)

    class Broken(fs.FSSpecHandler):
        def open_input_stream(self, path: str) -> pa.PythonFile:
            parts = iter([b"x" * 10])

            def read(size: int = -1) -> bytes:
                return next(parts)  # StopIteration after a tenth

            return pa.PythonFile(SimpleNamespace(read=read, closed=False, close=int), mode="r")

    broken = fs.PyFileSystem(Broken(LocalFileSystem()))
    with pytest.raises(Exception):  # noqa: B017, PT011  whatever pyarrow makes of it
        fs.copy_files(str(tmp_path), "/", broken, store, use_threads=False)
    gc.collect()
    assert list(folder.objects()) == [LEASE]
    fs.copy_files(str(tmp_path), "/", fs.LocalFileSystem(), store)
    assert folder.read("checkpoint_1") == b"x" * 100
    lease.release()
    (tmp_path / "checkpoint_1").write_bytes(b"late")
    fs.copy_files(str(tmp_path), "/", fs.LocalFileSystem(), store)  # it ignores the error
    assert folder.read("checkpoint_1") == b"x" * 100
    with pytest.raises(RunError, match="has lost the lease"):
        store.open_output_stream("/checkpoint_1").close()


def test_the_file_system_of_tune_lists_what_is_there(folder: ObjectFolder) -> None:
    lease = RunLease(folder)
    store = pickle.loads(pickle.dumps(bucket_filesystem(folder.url, lease.token)))
    with store.open_output_stream("/tune-0/trial-0/checkpoint_1/state") as file:
        file.write(b"state")
    with store.open_output_stream("/tune-0/tuner.pkl") as file:
        file.write(b"dropped")
    infos = store.get_file_info(fs.FileSelector("/tune-0", recursive=True))
    assert {info.path: info.type for info in infos} == {
        "/tune-0/trial-0": fs.FileType.Directory,
        "/tune-0/trial-0/checkpoint_1": fs.FileType.Directory,
        "/tune-0/trial-0/checkpoint_1/state": fs.FileType.File,
    }
    (top,) = store.get_file_info(fs.FileSelector("/tune-0"))
    assert top.path == "/tune-0/trial-0"
    assert store.get_file_info("/tune-1").type == fs.FileType.NotFound
    assert store.open_input_stream("/tune-0/trial-0/checkpoint_1/state").read() == b"state"
    store.copy_file("/tune-0/trial-0/checkpoint_1/state", "/tune-0/copy")
    store.move("/tune-0/copy", "/tune-0/moved")
    assert sorted(folder.objects()) == [
        LEASE, "tune-0/moved", "tune-0/trial-0/checkpoint_1/state",
    ]  # fmt: skip
    for delete in (store.delete_dir, store.delete_dir_contents):
        with pytest.raises(io.UnsupportedOperation, match="is a run: delete it outside of"):
            delete("/")
    with pytest.raises(io.UnsupportedOperation, match="is an object: write it anew"):
        store.open_append_stream("/tune-0/moved")
    assert folder.read("tune-0/moved") == b"state"
    store.delete_dir("/tune-0")
    assert list(folder.objects()) == [LEASE]
    lease.release()


def test_a_lease_excludes_others_until_it_expires(folder: ObjectFolder, monkeypatch) -> None:
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "1")
    assert not is_leased(folder)
    first = RunLease(folder)
    first.check_not_expired()
    check_stored_lease(folder, first.token)
    assert is_leased(folder)
    with pytest.raises(UserError, match=r"is still going on in another process \(process \d+ on "):
        RunLease(folder)
    first.release()
    assert not is_leased(folder)
    with pytest.raises(RunError, match=r"^this process has lost the lease of s3://"):
        check_stored_lease(folder, first.token)
    second = RunLease(folder)
    second.release()


def test_an_abandoned_lease_is_taken_over(folder: ObjectFolder, monkeypatch) -> None:
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "1")
    with monkeypatch.context() as patch:
        patch.setattr(RunLease, "_renew", lambda lease: None)  # as after a kill
        dead = RunLease(folder)
    began = time.monotonic()
    heir = RunLease(folder)
    assert 0.5 < time.monotonic() - began < 30
    with pytest.raises(RunError, match="has lost the lease"):
        dead.check_not_expired()
    with pytest.raises(RunError, match="has lost the lease"):
        check_stored_lease(folder, dead.token)
    heir.check_not_expired()
    dead.release()
    assert is_leased(folder)  # the release of a lost lease changes nothing
    heir.release()


def test_a_holder_trusts_no_longer_expiry_than_the_stored_one(
    folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal has arrived, but its answer was lost; the next one is refused."""
    lease = RunLease(folder)
    outdated = lease._version
    lease._write(outdated)
    stored = run_lease.read_lease(folder)
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "600")
    lease._seconds = 600.0
    lease._write(outdated)
    assert stored is not None
    assert lease._expires == stored[0].expires
    lease.release()


def test_a_lost_answer_does_not_lose_the_lease(folder: ObjectFolder, monkeypatch) -> None:
    """The store has written the lease, but the answer was lost, so that it is sent again."""
    create = ObjectFolder.create

    def create_twice(self: ObjectFolder, name: str, content: bytes) -> ObjectVersion | None:
        create(self, name, content)
        return create(self, name, content)

    monkeypatch.setattr(ObjectFolder, "create", create_twice)
    lease = RunLease(folder)
    lease.check_not_expired()
    lease.release()


def test_the_lease_of_another_process_that_took_over_is_noticed(
    folder: ObjectFolder, monkeypatch
) -> None:
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "1")
    lease = RunLease(folder)
    folder.write(LEASE, b'{"owner": "someone", "token": "t", "expires": 1e12}')
    lease._thread.join(30)  # it ends when a renewal is refused
    with pytest.raises(RunError, match="has lost the lease"):
        lease.check_not_expired()


def test_a_damaged_lease_counts_as_expired(folder: ObjectFolder) -> None:
    folder.write(LEASE, b"{")
    assert not is_leased(folder)
    RunLease(folder).release()


@pytest.mark.parametrize("text", ["0", "x", "1e9", "nan"])
def test_the_duration_of_a_lease_is_checked(monkeypatch, text: str) -> None:
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", text)
    with pytest.raises(UserError, match=f"^OVERTRICK_LEASE_SECONDS is '{text}': must be a number"):
        run_lease.lease_seconds()


def test_of_two_writers_one_wins(folder: ObjectFolder, bucket_port: int) -> None:
    """100 races of two processes; in every second race the lease of a dead process has expired."""
    urls = [f"{folder.url}/{k}" for k in range(RACES)]
    for url in urls[::2]:
        ObjectFolder(url).write(LEASE, b'{"owner": "dead", "token": "t", "expires": 1.0}')
    settings = environment() | client_settings(bucket_port) | {"OVERTRICK_LEASE_SECONDS": "16"}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, *urls], env=settings, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        for racer in racers:
            racer.stdin.write("\n")
            racer.stdin.flush()
        ends = np.array([racer.stdout.readline().split() for racer in racers])
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert ends.shape == (2, RACES)
    assert ((ends == "won").sum(axis=0) == 1).all()


def test_an_object_that_is_no_file_is_refused(folder: ObjectFolder, monkeypatch) -> None:
    """A name with '..' would be a file outside the local copy."""
    evil = {"path": f"{folder._path('')}a/../../x"}
    monkeypatch.setattr(object_store, "_stored", lambda found: found)
    store = SimpleNamespace(list=lambda above: [[evil]])
    monkeypatch.setattr(ObjectFolder, "_store", property(lambda folder: store))
    with pytest.raises(RunError, match="has an object that is no file"):
        folder.objects()
