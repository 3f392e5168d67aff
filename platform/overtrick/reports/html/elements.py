"""Pieces of a page: text that is escaped, tables, pictures, curves; and the page as one file."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MOST = 5_000_000  # bytes of a page
POINTS = 200  # of a curve
WIDTH, HEIGHT = 200, 60  # of a curve's box
KINDS = {".png": "image/png", ".mp4": "video/mp4"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
POLICY += "img-src data:; media-src data:"  # so that the page can ask nobody for anything


class Section(NamedTuple):
    """A part of a page with a heading: pieces of HTML, of which the last may be left out."""

    heading: str
    pieces: Sequence[str]


def page(title: str, lead: str, sections: Iterable[Section]) -> str:
    """One file of HTML that needs no other, of no more than MOST bytes: pieces that are too large
    for what is left are left out, and the page says how many."""
    style, script = ((HERE / name).read_text() for name in ("page.css", "page.js"))
    room = MOST - len(style) - len(script) - 20_000
    links, parts = [], []
    for number, section in enumerate(each for each in sections if each.pieces):
        fitting = []
        for piece in section.pieces:
            size = len(piece.encode())
            if size <= room:
                fitting.append(piece)
                room -= size
        missing = len(section.pieces) - len(fitting)
        note = f'<p class="pale">{missing} left out: the page would be too large.</p>'
        links.append(f'<li><a href="#part{number}">{escape(section.heading)}</a></li>')
        parts.append(
            f'<section id="part{number}"><h2>{escape(section.heading)}</h2>\n'
            f"{''.join(fitting)}{note if missing else ''}</section>"
        )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>\n<p>{escape(lead)}</p>\n"
        f'<nav aria-label="parts"><ul>{"".join(links)}</ul></nav></header>\n'
        f"<main>\n{''.join(parts)}\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading row; a wide one can be scrolled."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def text(words: str) -> str:
    """Text with its lines as they are."""
    return f"<pre>{escape(words)}</pre>\n"


def folded(name: str, words: str) -> str:
    """Text that is shown when somebody asks for it."""
    return f"<details><summary>{escape(name)}</summary>{text(words)}</details>\n"


def picture(path: Path, name: str) -> str:
    """A figure or a film, inside the page."""
    kind = KINDS[path.suffix]
    data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    shown = f'<img src="{data}" alt="figure: {escape(name)}">'
    if kind.startswith("video"):
        shown = f'<video src="{data}" controls aria-label="film: {escape(name)}"></video>'
    return f"<figure>{shown}<figcaption>{escape(name)}</figcaption></figure>\n"


def curve(name: str, points: Sequence[tuple[int, float]]) -> str:
    """How a number went, by iteration: finite points only, two or more, thinned out."""
    step = math.ceil(len(points) / POINTS)
    kept = [*points[:-1:step], points[-1]]
    xs, ys = zip(*kept, strict=True)
    low, high = min(ys), max(ys)
    across, up = max(xs[-1] - xs[0], 1), (high - low) or 1.0
    line = " ".join(
        f"{(x - xs[0]) / across * WIDTH:.1f},{HEIGHT - 2 - (y - low) / up * (HEIGHT - 4):.1f}"
        for x, y in kept
    )
    said = f"{name}: {ys[0]:.4g} at iteration {xs[0]}, {ys[-1]:.4g} at {xs[-1]}"
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(said)}"><polyline points="{line}"/></svg>'
        f"<figcaption>{escape(name)}: {ys[-1]:.4g}<br>from {low:.4g} to {high:.4g}</figcaption>"
        "</figure>\n"
    )
