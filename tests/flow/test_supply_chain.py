"""Pinned dependencies, their hashes and advisories, and the tags of container images."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from tests import advisories, pin_images

import overtrick

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
IMAGE_FILES = sorted(
    [*ROOT.glob("docker/*.yaml"), *ROOT.glob("cluster/*.yaml"), *ROOT.glob("cluster/kuberay/*")]
)
OWN_IMAGE = re.compile(r"registry\.example\.com/overtrick(?:-mlflow)?:(\S+)")


def locked() -> dict[str, list[str]]:
    """Return the hashes of each requirement NAME==VERSION of the lock file."""
    found: dict[str, list[str]] = {}
    for line in LOCK.read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            name = line.split()[0]
            found[name] = []
        elif "--hash=" in line:
            found[name].append(line.split("--hash=")[1].split()[0])
    return found


def test_the_lock_has_hashes_of_every_pinned_package_but_torch():
    """After a change of constraints.txt run `make lock`."""
    pins = advisories.pinned((ROOT / "constraints.txt").read_text())
    torch = pins.pop("torch")
    assert f"# torch=={torch}" in LOCK.read_text()
    assert advisories.pinned("\n".join(locked())) == pins
    for hashes in locked().values():
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


@pytest.mark.slow
def test_pip_installs_from_the_lock_with_hashes(tmp_path: Path):
    """A requirement whose hash differs is refused. Needs a package index."""

    def install(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "some.txt").write_text(text)
        command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--no-deps"]
        place = ["--target", str(tmp_path / "here"), "-r", str(tmp_path / "some.txt")]
        return subprocess.run([*command, *place], capture_output=True, text=True, check=False)

    some = {
        name: hashes
        for name, hashes in locked().items()
        if name.startswith(("safetensors==", "typer==", "rich=="))
    }
    assert len(some) == 3
    text = "\n".join(
        " ".join([name, *(f"--hash={each}" for each in hashes)]) for name, hashes in some.items()
    )
    done = install(text)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "safetensors").is_dir()
    done = install(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", text))
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


DIGEST = f"sha256:{'1f' * 32}"


@pytest.fixture
def registry() -> Iterator[str]:
    """Serve a registry that knows the image team/tool:1.2 and asks for a token; yield its host."""

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/token?service=here&scope=repository%3Ateam%2Ftool%3Apull"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"token": "open sesame"}')

        def do_HEAD(self) -> None:
            known = self.path == "/v2/team/tool/manifests/1.2"
            allowed = self.headers.get("Authorization") == "Bearer open sesame"
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            self.send_response(404 if not known else 200 if allowed else 401)
            if not allowed:
                scope = 'service="here",scope="repository:team/tool:pull"'
                self.send_header("WWW-Authenticate", f'Bearer realm="http://{host}/token",{scope}')
            else:
                self.send_header("Docker-Content-Digest", DIGEST)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        host = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield host
        server.shutdown()


def test_images_are_pinned_by_the_digests_of_their_registry(registry, tmp_path, capsys):
    compose, image = tmp_path / "docker" / "compose.yaml", f"{registry}/team/tool"
    compose.parent.mkdir()
    before = (
        f"services:\n  a:\n    image: {image}:1.2  # a tool\n  b: {{image: overtrick}}\n"
        f"  c:\n    image: registry.example.com/overtrick:0.1.0\n"
    )
    compose.write_text(before)
    after = before.replace(f"{image}:1.2", f"{image}:1.2@{DIGEST}")
    for _ in range(2):  # pinned images are looked up again
        assert pin_images.main(tmp_path) == 0
        assert compose.read_text() == after
    assert capsys.readouterr().out == "docker/compose.yaml: changed\nimages: 1\nimages: 1\n"
    (tmp_path / "docker" / "Dockerfile").write_text(f"ARG PYTHON_IMAGE={image}:9\n")
    assert pin_images.main(tmp_path) == 2
    error = capsys.readouterr().err
    assert f"{registry} gives no digest of {image}:9 (HTTP Error 404" in error
    assert (tmp_path / "docker" / "Dockerfile").read_text() == f"ARG PYTHON_IMAGE={image}:9\n"


@pytest.mark.parametrize(
    ("name", "host", "path"),
    [
        ("python", "registry-1.docker.io", "library/python"),
        ("prom/prometheus", "registry-1.docker.io", "prom/prometheus"),
        ("ghcr.io/owner/tool", "ghcr.io", "owner/tool"),
        ("localhost/tool", "localhost", "tool"),
    ],
)
def test_the_registry_of_an_image_follows_from_its_name(name, host, path):
    assert pin_images.location(name) == (host, path)


def test_the_images_of_other_makers_are_found():
    texts = [file.read_text() for file in [*IMAGE_FILES, ROOT / "docker" / "Dockerfile"]]
    names = {found["name"] for text in texts for found in pin_images.IMAGE.finditer(text)}
    assert {"python", "postgres", "grafana/grafana", "chrislusf/seaweedfs"} <= names


def advisory(**affected: Any) -> dict[str, Any]:
    package = {"ecosystem": "PyPI", "name": "Some_Package"}
    return {"id": "OSV-1", "summary": "bad", "affected": [{"package": package, **affected}]}


def events(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: v} for kind, v in pairs]}]}


@pytest.mark.parametrize(
    ("version", "affected", "hit"),
    [
        ("1.2.0", {"versions": ["1.1", "1.2"]}, True),
        ("1.2.1", {"versions": ["1.1", "1.2", "not-a-version"]}, False),
        ("1.2", events(("introduced", "0"), ("fixed", "1.2")), False),
        ("1.1.9", events(("introduced", "0"), ("fixed", "1.2")), True),
        ("1.2", events(("introduced", "1.0"), ("last_affected", "1.2")), True),
        ("1.2.1", events(("introduced", "1.0"), ("last_affected", "1.2")), False),
        ("0.9", events(("introduced", "1.0"), ("fixed", "1.2")), False),
        ("2.1", events(("introduced", "1"), ("fixed", "1.2"), ("introduced", "2.0")), True),
        ("1.5", events(("introduced", "2.0"), ("fixed", "1.2"), ("introduced", "1")), False),
        ("1.0", {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)
def test_an_advisory_affects_listed_versions_and_those_in_its_ranges(version, affected, hit):
    found = list(advisories.matches(advisory(**affected), {"some-package": Version(version)}))
    assert found == ([f"some-package {Version(version)}: OSV-1 bad"] if hit else [])


def test_an_advisory_of_another_ecosystem_or_that_is_withdrawn_affects_nothing():
    pins = {"some-package": Version("1")}
    every = events(("introduced", "0"))
    assert list(advisories.matches(advisory(**every), pins))
    assert not list(advisories.matches({**advisory(**every), "withdrawn": "2026-01-01"}, pins))
    other = advisory(**every, package={"ecosystem": "npm", "name": "some-package"})
    assert not list(advisories.matches(other, pins))


def test_a_folder_of_advisories_is_matched_against_the_pinned_versions(tmp_path: Path, capsys):
    def audit() -> tuple[int, str]:
        code = advisories.main([str(tmp_path)])
        return code, "".join(capsys.readouterr())

    assert audit() == (2, f"error: {tmp_path} has no JSON files\n")
    numpy = {"ecosystem": "PyPI", "name": "numpy"}
    old = events(("introduced", "0"), ("fixed", "1.0"))
    (tmp_path / "old.json").write_text(json.dumps(advisory(package=numpy, **old)))
    assert audit()[0] == 0
    new = events(("introduced", "0"))
    (tmp_path / "new.json").write_text(json.dumps(advisory(package=numpy, **new)))
    code, shown = audit()
    assert code == 1
    assert re.search(r"numpy \S+: OSV-1 bad\nfindings: 1 \(2 advisories, \d+ packages\)", shown)
    (tmp_path / "bad.json").write_text("{")
    code, shown = audit()
    assert code == 2
    assert "bad.json is not an advisory" in shown


@pytest.mark.parametrize("path", IMAGE_FILES, ids=lambda path: path.name)
def test_images_have_a_version_and_never_the_tag_latest(path: Path):
    text = path.read_text()
    assert ":latest" not in text
    assert {*OWN_IMAGE.findall(text)} <= {overtrick.__version__}
    for image in re.findall(r"^\s*image:\s*([^\s$]+)", text, re.M):
        assert ":" in image or image.startswith("overtrick"), f"{image} has no tag"
