"""Elements of an HTML page (escaped text, tables, images, curves), and the page as one file."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MAX_BYTES = 5_000_000  # of a page
MAX_POINTS = 200  # of a curve
WIDTH, HEIGHT = 200, 60  # of the box of a curve
BARS_WIDTH, BAR_HEIGHT, LABEL_WIDTH = 640, 20, 110  # of a chart of bars
MIME_TYPES = {".png": "image/png", ".mp4": "video/mp4"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
POLICY += "img-src data:; media-src data:"  # the page can load nothing from elsewhere


class PageSection(NamedTuple):
    """Section of a page: a heading and pieces of HTML. Pieces may be left out to save space."""

    heading: str
    pieces: Sequence[str]


def page(title: str, lead: str, sections: Iterable[PageSection]) -> str:
    """Return an HTML page that needs no other file.

    `lead`: a line below the title. A section consists of pieces of HTML, such as tables and images.
    A piece that would make the page larger than MAX_BYTES is left out; the section then shows how
    many pieces are missing.
    """
    style, script = ((HERE / name).read_text() for name in ("page.css", "page.js"))
    room = MAX_BYTES - len(style) - len(script) - 20_000
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
    """Return an HTML table with a heading row; a wide table can be scrolled.

    `names`: the headings of the columns.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def text(words: str) -> str:
    """Return plain text as HTML that keeps its spaces and line breaks."""
    return f"<pre>{escape(words)}</pre>\n"


def folded(name: str, words: str) -> str:
    """Return text as HTML under the heading `name`, hidden until the reader unfolds it."""
    return f"<details><summary>{escape(name)}</summary>{text(words)}</details>\n"


def picture(path: Path, name: str) -> str:
    """Return HTML with an image or video file embedded as data. `name`: its caption."""
    kind = MIME_TYPES[path.suffix]
    data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    shown = f'<img src="{data}" alt="figure: {escape(name)}">'
    if kind.startswith("video"):
        shown = f'<video src="{data}" controls aria-label="video: {escape(name)}"></video>'
    return f"<figure>{shown}<figcaption>{escape(name)}</figcaption></figure>\n"


def curve(name: str, points: Sequence[tuple[int, float]]) -> str:
    """Return a small SVG line chart of a metric over the iterations, of at most MAX_POINTS points.

    `name`: the metric. `points`: at least two pairs (iteration, value), all finite.
    """
    step = math.ceil(len(points) / MAX_POINTS)
    xs, ys = zip(*[*points[:-1:step], points[-1]], strict=True)
    low, high = min(ys), max(ys)
    across, up = max(xs[-1] - xs[0], 1), (high - low) or 1.0
    line = " ".join(
        f"{(x - xs[0]) / across * WIDTH:.1f},{HEIGHT - 2 - (y - low) / up * (HEIGHT - 4):.1f}"
        for x, y in zip(xs, ys, strict=True)
    )
    label = f"{name}: {ys[0]:.4g} at iteration {xs[0]}, {ys[-1]:.4g} at {xs[-1]}"
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><polyline points="{line}"/></svg>'
        f"<figcaption>{escape(name)}: {ys[-1]:.4g}<br>from {low:.4g} to {high:.4g}</figcaption>"
        "</figure>\n"
    )


def bar_chart(
    groups: Mapping[str, Mapping[str, float]], marks: Mapping[str, float], unit: str
) -> str:
    """Return an SVG chart of horizontal bars, in groups.

    `groups`: the bars of each group, as values by label. `marks`: a value of some groups, drawn as
    a line across their bars. `unit`: unit of all values.
    """
    values = [0.0, *marks.values(), *(v for group in groups.values() for v in group.values())]
    low, high = min(values), max(values)
    scale = (BARS_WIDTH - 2 * LABEL_WIDTH) / ((high - low) or 1.0)
    zero, y, drawn = LABEL_WIDTH - low * scale, 0, list[str]()
    for name, group in groups.items():
        top = y
        drawn.append(f'<text class="name" x="0" y="{y + BAR_HEIGHT}">{escape(name)}</text>')
        for number, (label, value) in enumerate(group.items()):
            left, length = zero + min(value, 0) * scale, abs(value) * scale
            end = zero + max(value, 0) * scale + 4
            drawn.append(
                f'<rect class="bar{number}" x="{left:.1f}" y="{y}" width="{length:.1f}" '
                f'height="{BAR_HEIGHT - 2}"/><text x="{end:.1f}" y="{y + BAR_HEIGHT - 5}">'
                f"{escape(label)} {value:+.3f}</text>"
            )
            y += BAR_HEIGHT
        if name in marks:
            x = zero + marks[name] * scale
            drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y - 2}"/>')
        y += BAR_HEIGHT // 2
    axis = f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{y}"/>'
    return (
        f'<figure class="bars"><svg viewBox="0 0 {BARS_WIDTH} {y}" role="img" '
        f'aria-label="bar chart, the numbers are in the table">{axis}{"".join(drawn)}</svg>'
        f"<figcaption>in {escape(unit)}s a game</figcaption></figure>\n"
    )
