"""Elements of an HTML page (tables, images, curves), and the page as one file, by Jinja templates.

Jinja escapes every text that is not HTML of another template.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from overtrick.reports.metric_names import metric_meaning

HERE = Path(__file__).parent
MAX_BYTES = 5_000_000  # of a page
MAX_POINTS = 500  # of a curve
MIME_TYPES = {".png": "image/png", ".mp4": "video/mp4"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
POLICY += "img-src data:; media-src data:"  # the page can load nothing from elsewhere

CURVE_WIDTH, CURVE_HEIGHT = 360, 190
CURVE_MARGINS = {"left": 64, "right": 14, "top": 10}
AXIS_HEIGHT = 40  # below the plot: numbers and name of the x axis
CURVE_SCALE = 1000  # coordinates of the line go from 0 to this number
BARS_WIDTH, BAR_HEIGHT, LABEL_WIDTH = 640, 20, 110  # of a chart of bars

TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class PageSection(NamedTuple):
    """Section of a page: a heading and pieces of HTML. Pieces may be left out to save space."""

    heading: str
    pieces: Sequence[Markup]


def render(template: str, **values: Any) -> Markup:
    """Return the HTML of a template in the folder templates/ with these values."""
    return Markup(TEMPLATES.get_template(template).render(values))


def room_of_pieces() -> int:
    """Return how many bytes a page has for the pieces of its sections."""
    return MAX_BYTES - sum(map(len, _style_and_script())) - 20_000


def _style_and_script() -> list[str]:
    return [(HERE / name).read_text("utf-8") for name in ("page.css", "page.js")]


def page(title: str, lead: str, sections: Iterable[PageSection]) -> str:
    """Return an HTML page that needs no other file.

    `lead`: a line below the title. A section consists of pieces of HTML, such as tables and images.
    A piece that would make the page larger than MAX_BYTES is left out; the section then shows how
    many pieces are missing.
    """
    style, script = map(Markup, _style_and_script())
    room = room_of_pieces()
    shown = []
    for section in sections:
        fitting = []
        for piece in section.pieces:
            size = len(piece.encode())
            if size <= room:
                fitting.append(piece)
                room -= size
        missing = len(section.pieces) - len(fitting)
        if section.pieces:
            shown.append({"heading": section.heading, "pieces": fitting, "missing": missing})
    return render(
        "page.html",
        title=title, lead=lead, sections=shown, style=style, script=script, policy=POLICY,
    )  # fmt: skip


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return an HTML table with a heading row; a wide table can be scrolled.

    `names`: the headings of the columns.
    """
    return render("table.html", names=names, rows=rows)


def text(words: str) -> Markup:
    """Return plain text as HTML that keeps its spaces and line breaks."""
    return Markup("<pre>{}</pre>\n").format(words)


def paragraph(words: str) -> Markup:
    """Return plain text as a paragraph."""
    return Markup("<p>{}</p>\n").format(words)


def folded(name: str, words: str) -> Markup:
    """Return text as HTML under the heading `name`, hidden until the reader unfolds it."""
    return Markup("<details><summary>{}</summary>{}</details>\n").format(name, text(words))


def picture(path: Path, name: str) -> Markup:
    """Return HTML with an image or video file embedded as data. `name`: its caption."""
    kind = MIME_TYPES[path.suffix]
    data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return render("picture.html", kind=kind, data=data, name=name)


def curve(name: str, points: Sequence[tuple[int, float]]) -> Markup:
    """Return an SVG line chart of a metric over the iterations, with axes and the metric's meaning.

    The page's script lets a reader enlarge it, zoom into a range, and read single values.
    `name`: the metric. `points`: at least two pairs (iteration, value), all finite.
    """
    x, y = zip(*points, strict=True)
    low, high = min(y), max(y)
    across, up = max(x[-1] - x[0], 1), (high - low) or 1.0
    kept = _thin_out(points)
    line = " ".join(
        f"{(i - x[0]) / across * CURVE_SCALE:.2f},{(high - value) / up * CURVE_SCALE:.2f}"
        for i, value in kept
    )
    values = " ".join(f"{i},{value:.6g}" for i, value in kept)
    margins = CURVE_MARGINS
    return render(
        "curve.html",
        name=name, meaning=metric_meaning(name), line=line, values=values, x=x, y=y,
        low=low, high=high, number=_format_number,
        label=f"{name}: {y[0]:.4g} at iteration {x[0]}, {y[-1]:.4g} at {x[-1]}",
        width=CURVE_WIDTH, height=CURVE_HEIGHT, scale=CURVE_SCALE,
        plot_width=CURVE_WIDTH - margins["left"] - margins["right"],
        plot_height=CURVE_HEIGHT - margins["top"] - AXIS_HEIGHT,
        **margins,
    )  # fmt: skip


def _format_number(value: float) -> str:
    """Return a number with three digits, but at least with all those before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _thin_out(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most MAX_POINTS of a curve's points, with the extremes of each part of it.

    The curve is cut into equal parts. Each keeps its lowest and its highest point; the whole keeps
    its first and last point.
    """
    if len(points) <= MAX_POINTS:
        return list(points)
    parts = MAX_POINTS // 2 - 1
    kept = {0, len(points) - 1}
    for part in range(parts):
        places = range(part * len(points) // parts, (part + 1) * len(points) // parts)
        kept |= {extreme(places, key=lambda place: points[place][1]) for extreme in (min, max)}
    return [points[place] for place in sorted(kept)]


def bar_chart(
    groups: Mapping[str, Mapping[str, float]], marks: Mapping[str, float], unit: str
) -> Markup:
    """Return an SVG chart of horizontal bars, in groups.

    `groups`: the bars of each group, as values by label. `marks`: a value of some groups, drawn as
    a line across their bars. `unit`: unit of all values.
    """
    values = [0.0, *marks.values(), *(v for group in groups.values() for v in group.values())]
    low, high = min(values), max(values)
    scale = (BARS_WIDTH - 2 * LABEL_WIDTH) / ((high - low) or 1.0)
    zero, y, drawn = LABEL_WIDTH - low * scale, 0, list[dict[str, Any]]()
    for name, group in groups.items():
        top, bars = y, []
        for label, value in group.items():
            bars.append(
                {
                    "label": label,
                    "value": value,
                    "y": y,
                    "left": round(zero + min(value, 0) * scale, 1),
                    "length": round(abs(value) * scale, 1),
                    "end": round(zero + max(value, 0) * scale + 4, 1),
                }
            )
            y += BAR_HEIGHT
        mark = round(zero + marks[name] * scale, 1) if name in marks else None
        drawn.append({"name": name, "y": top, "bars": bars, "mark": mark, "bottom": y - 2})
        y += BAR_HEIGHT // 2
    return render(
        "bar_chart.html",
        groups=drawn, zero=round(zero, 1), width=BARS_WIDTH, height=y, bar_height=BAR_HEIGHT,
        unit=unit,
    )  # fmt: skip
