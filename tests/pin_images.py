"""Write the digests of container images beside their tags: `make pin-images`.

A tag may be moved to another image, a digest never. Every image of other makers in docker/ and
cluster/ becomes NAME:TAG@sha256:..., by the answer of its registry. Nothing is written unless every
registry answers. https://distribution.github.io/distribution/spec/api has the protocol.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from pathlib import Path

from overtrick.core.files import write_text

ROOT = Path(__file__).parents[1]
FILES = ("docker/Dockerfile", "docker/*.yaml", "cluster/*.yaml", "cluster/kuberay/*.yaml")
IMAGE = re.compile(
    r"(?P<key>image: |ARG PYTHON_IMAGE=)(?P<name>[\w./:-]+?):(?P<tag>[\w][\w.-]*)"
    r"(?P<digest>@sha256:[0-9a-f]{64})?(?=\s|$)"
)
OURS = "registry.example.com/"
DOCKER_HUB = "registry-1.docker.io"
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class RegistryError(Exception):
    """Error: a registry does not answer, or does not know an image."""


def main(root: Path = ROOT) -> int:
    """Pin the images of all files in `root`. Return 2 if a registry gives no digest."""
    files = [file for pattern in FILES for file in sorted(root.glob(pattern))]
    texts = {file: file.read_text() for file in files}
    images = sorted(
        {
            (found["name"], found["tag"])
            for text in texts.values()
            for found in IMAGE.finditer(text)
            if not found["name"].startswith(OURS)
        }
    )
    try:
        digests = {image: digest(*image) for image in images}
    except RegistryError as error:
        print(f"error: {error}; no file was changed", file=sys.stderr)
        return 2

    def pinned(found: re.Match[str]) -> str:
        name, tag = found["name"], found["tag"]
        if name.startswith(OURS):
            return found[0]
        return f"{found['key']}{name}:{tag}@{digests[name, tag]}"

    for file, text in texts.items():
        changed = IMAGE.sub(pinned, text)
        if changed != text:
            write_text(file, changed)
            print(f"{file.relative_to(root)}: changed")
    print(f"images: {len(images)}")
    return 0


def digest(name: str, tag: str) -> str:
    """Return the digest of an image, such as sha256:0123...; raise RegistryError without one."""
    host, path = location(name)
    local = host.partition(":")[0] in ("localhost", "127.0.0.1")
    address = f"{'http' if local else 'https'}://{host}/v2/{path}/manifests/{tag}"
    headers = {"Accept": ", ".join(KINDS)}
    try:
        try:
            answer = _head(address, headers)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            token = _anonymous_token(error.headers.get("WWW-Authenticate", ""))
            answer = _head(address, {**headers, "Authorization": f"Bearer {token}"})
    except (OSError, ValueError, KeyError) as error:
        raise RegistryError(f"{host} gives no digest of {name}:{tag} ({error})") from None
    found = answer.get("Docker-Content-Digest") or ""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", found):
        raise RegistryError(f"{host} gives no digest of {name}:{tag} (its answer has '{found}')")
    return found


def location(name: str) -> tuple[str, str]:
    """Return the registry of an image and the image's path there, as Docker reads its name."""
    host, slash, path = name.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return host, path
    return DOCKER_HUB, name if slash else f"library/{name}"


def _head(address: str, headers: dict[str, str]) -> Message:
    asked = urllib.request.Request(address, headers=headers, method="HEAD")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        found: Message = answer.headers
    return found


def _anonymous_token(challenge: str) -> str:
    """Ask for a token to read public images, as a registry's header WWW-Authenticate says."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    query = urllib.parse.urlencode({k: fields[k] for k in ("service", "scope") if k in fields})
    with urllib.request.urlopen(f"{fields['realm']}?{query}", timeout=30) as answer:
        content = json.load(answer)
    return str(content.get("token") or content["access_token"])


if __name__ == "__main__":
    sys.exit(main())
