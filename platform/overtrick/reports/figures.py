"""Figures of runs: learning curves, convergence, strategies, trees, adaptation and safety."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overtrick.core import CHANCE, END, Array, TreeNodes
from overtrick.core.files import replacing
from overtrick.reports import metric_names
from overtrick.reports.metric_names import History, gap_name, opponent_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright palette, which colour-blind readers can distinguish."""

MAX_CHANCE_CHILDREN = 2  # chance outcomes drawn at a node of a tree

SMALLEST_GAP = 1e-17  # drawn on a logarithmic scale for an exploitability of 0 or below

MAX_INFOSETS = 40  # information sets that fit in a figure


def panels(
    count: int, width: float, height: float, columns: int | None = None, sharey: bool = False
) -> tuple[Figure, list[Any]]:
    """Return an empty figure with `count` charts in a grid, and the axes of each chart.

    `width`: of the figure, in inches. `height`: of a row of charts, in inches. `columns`: number of
    charts side by side; None: all. `sharey`: share the y axis.
    """
    from matplotlib.figure import Figure

    across = min(count, columns or count)
    down = -(-count // across)
    figure = Figure(figsize=(width, height * down), layout="constrained")
    axes = figure.subplots(down, across, sharey=sharey, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.axis("off")
    return figure, list(axes[:count])


def learning_curve(history: History, unit: str, adapts: bool) -> Figure:
    """Plot the payoff over the iterations, a line for each held-out opponent.

    `history`: each iteration and its metrics. `unit`: of the payoff. `adapts`: whether the model
    adapts to its opponents; the payoff is then that after adaptation.
    """
    figure, (axis,) = panels(1, 6.4, 4)
    steps = metric_names.last_steps(history)
    for colour, (opponent, step) in zip(itertools.cycle(COLOURS), steps.items()):
        name = metric_names.payoff_name(opponent, step, unit)
        points = [(i, m[name]) for i, m in history if name in m]
        if points:  # training may have another unit than evaluation
            axis.plot(*zip(*points, strict=True), color=colour, marker="o", ms=3, label=opponent)
    axis.set(
        xlabel="iteration", ylabel=f"payoff{' after adaptation' if adapts else ''}, {unit} a game"
    )
    axis.legend()
    return figure


def convergence(history: History, unit: str) -> Figure:
    """Plot the exploitability of each solver over the iterations, with lines of slope -1/2 and -1.

    Both axes are logarithmic, so the slope of a line is a rate of convergence. The proven rate of
    every CFR variant is O(1/sqrt(T)) after T iterations (Zinkevich et al. 2007, theorem 4; Lanctot
    et al. 2009; Tammelin et al. 2015; Brown and Sandholm 2019). In practice, CFR+ and discounted
    CFR often come close to 1/T. Points that the history lacks are left out.
    """
    figure, (axis,) = panels(1, 6.4, 4)
    measured = _series(history, metric_names.ITERATIONS, gap_name("", unit))
    curves = {
        name: [(t, max(gap, SMALLEST_GAP)) for t, gap in points]
        for name, points in measured.items()
    }
    for k, (name, points) in enumerate(curves.items()):
        colour, line = COLOURS[k % len(COLOURS)], ("-", "-.")[k // len(COLOURS) % 2]
        axis.plot(*zip(*points, strict=True), line, color=colour, label=name)
    reached = sorted({t for points in curves.values() for t, _ in points if t > 0})
    worst = max((points[0][1] for points in curves.values()), default=SMALLEST_GAP)
    for power, style in ((-0.5, "--"), (-1.0, ":")):
        rate = [worst * (t / reached[0]) ** power for t in reached]
        axis.plot(reached, rate, color="black", ls=style, lw=1, label=f"slope {power:g}")
    axis.set(xscale="log", yscale="log", xlabel="iterations", ylabel=f"exploitability, {unit}")
    axis.legend(fontsize=7)
    return figure


def evolution_progress(history: History, unit: str) -> Figure:
    """Plot exploitability and step size of an evolution strategy over the number of evaluations.

    An evaluation is that of one genome. Points that the history lacks are left out. Follows Fig. 6
    of Samothrakis and Lucas 2011.
    """
    figure, axes = panels(2, 9, 4)
    labels = ((gap_name("", unit), f"exploitability, {unit}"), ("step_size", "step size"))
    for axis, (start, ylabel) in zip(axes, labels, strict=True):
        for points in _series(history, metric_names.EVALUATIONS, start).values():
            axis.plot(*zip(*points, strict=True), color=COLOURS[0])
        axis.set(yscale="log", xlabel="evaluations", ylabel=ylabel)
    return figure


def _series(history: History, x: str, start: str) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each metric whose name begins with `start`, by the rest of its name.

    A point is the value of the metric `x` and that of the metric. Iterations without the metric `x`
    have no points: a damaged record lacks some.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for _, metrics in history:
        for name, value in metrics.items() if x in metrics else ():
            if name.startswith(start):
                found.setdefault(name.removeprefix(start), []).append((metrics[x], value))
    return found


def strategy_bars(sigma: Array, situations: Sequence[str], actions: Sequence[str]) -> Figure:
    """Draw the action probabilities of a strategy (N, A), one stacked bar for each information set.

    `situations`: names of the N information sets. `actions`: names of the A actions.
    """
    figure, (axis,) = panels(1, 7, 1 + 0.25 * len(situations))
    left = np.cumsum(sigma, axis=1) - sigma
    for a, action in enumerate(actions):
        axis.barh(situations, sigma[:, a], left=left[:, a], color=COLOURS[a % 7], label=action)
    axis.invert_yaxis()
    axis.set(xlabel="probability", xlim=(0, 1))
    figure.legend(loc="outside upper right", ncols=len(actions))
    return figure


def game_tree(nodes: TreeNodes, probability: Array, actions: Sequence[str]) -> Figure:
    """Draw a game tree with a strategy (Samothrakis and Lucas 2011, Fig. 3).

    `nodes`: the V nodes of the tree. `probability`: (V,) probability of the edge into each node,
    which sets the width of the edge. Chance nodes are grey and show only their first
    MAX_CHANCE_CHILDREN outcomes. Other nodes have the colour of the seat that acts.
    """
    below = np.bincount(nodes.parent[1:], minlength=len(nodes.parent))
    first = 1 + np.cumsum(below) - below
    place: dict[int, tuple[float, int]] = {}

    def visit(node: int, depth: int) -> float:
        shown = range(first[node], first[node] + below[node])
        if nodes.seat[node] == CHANCE:
            shown = shown[:MAX_CHANCE_CHILDREN]
        across = [visit(child, depth + 1) for child in shown]
        x = sum(across) / len(across) if across else float(sum(y < 0 for _, y in ends))
        place[node] = (x, -depth)
        if not across:
            ends.append((x, -depth))
        return x

    ends: list[tuple[float, int]] = []
    visit(0, 0)
    figure, (axis,) = panels(1, max(6.4, 0.7 * len(ends)), 4)
    for node, (x, y) in place.items():
        above = int(nodes.parent[node])
        if above >= 0:
            x0, y0 = place[above]
            axis.plot([x0, x], [y0, y], color="black", lw=0.3 + 2 * probability[node], zorder=1)
            action = "" if nodes.seat[above] == CHANCE else actions[nodes.edge[node]] + " "
            axis.text((x0 + x) / 2, (y0 + y) / 2, f"{action}{probability[node]:.2f}", fontsize=6)
        seat = int(nodes.seat[node])
        colour = "lightgrey" if seat < 0 else COLOURS[seat % len(COLOURS)]
        axis.scatter([x], [y], color=colour, zorder=2, s=60, marker="s" if seat == END else "o")
        if seat == END:
            paid = " ".join(f"{points:+g}" for points in nodes.gain[node])
            axis.text(x, y - 0.15, paid, fontsize=6, ha="center", va="top")
    axis.axis("off")
    return figure


def bucket_graph(start: Array, moves: Sequence[Array]) -> Figure:
    """Draw the transitions between buckets of hands (Samothrakis and Lucas 2011, Fig. 5).

    `start`: (K, K) joint probability of both seats' first buckets, for K buckets. `moves`: for each
    betting round after the first, (K, K) probabilities of each bucket given the bucket in the round
    before. The width of a line shows the probability of a transition. The size of a point shows the
    probability of a bucket.
    """
    figure, (axis,) = panels(1, 7, 4)
    held = start.sum(axis=1)
    for round_, table in enumerate([*moves, None]):
        axis.scatter([round_] * len(held), range(len(held)), s=1500 * held, color=COLOURS[0])
        if table is None:
            break
        for a, b in np.argwhere(table > 0.005):
            axis.plot([round_, round_ + 1], [a, b], color="black", lw=5 * table[a, b], alpha=0.5)
        held = held @ table
    axis.set(xlabel="round", xticks=range(len(moves) + 1))
    axis.set(ylabel="bucket, weakest to strongest", yticks=range(len(start)))
    return figure


def action_heatmaps(probabilities: Array, actions: Sequence[str]) -> Figure:
    """Draw a heat map for each action: its probability in each betting round and card bucket.

    `probabilities`: (rounds, K, A) for K buckets of hands and A actions. Follows Fig. 4 of
    Samothrakis and Lucas 2011.
    """
    figure, axes = panels(len(actions), 3.2 * len(actions), 3.4, sharey=True)
    for a, (axis, action) in enumerate(zip(axes, actions, strict=True)):
        image = axis.imshow(probabilities[:, :, a].T, origin="lower", vmin=0, vmax=1)
        axis.set(title=action, xlabel="round", xticks=range(len(probabilities)))
    axes[0].set_ylabel("bucket, weakest to strongest")
    figure.colorbar(image, ax=axes, label="probability")
    return figure


def adaptation(rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    """Draw the payoff after each adaptation step, one chart for each held-out opponent.

    `rows`: the results table, a row for each opponent. A dashed line shows the best-response value.
    """
    figure, axes = panels(len(rows), max(6.4, 2.6 * len(rows)), 4, sharey=True)
    for axis, colour, row in zip(axes, itertools.cycle(COLOURS), rows):
        steps = np.arange(len(row["steps"]))
        axis.bar(steps, row["steps"], yerr=row["standard_error"], color=colour, capsize=3)
        if row["best_response"] is not None:
            axis.axhline(row["best_response"], color="black", ls="--", lw=1, label="best response")
            axis.legend(fontsize=7)
        axis.axhline(0, color="black", lw=0.5)
        axis.set(title=opponent_label(row["stranger"]), xlabel="steps", xticks=steps)
    axes[0].set_ylabel(f"payoff, {unit} a game")
    return figure


def adaptation_figures(
    history: History, rows: Sequence[Mapping[str, Any]], unit: str
) -> dict[str, Figure]:
    """Return the figures, by name, of a trainer whose model adapts.

    The figure `learning_curve` shows the metrics by training iteration. The figure `adaptation`
    shows the payoff of the trained model after each adaptation step.

    `history`: each iteration and its metrics. `rows`: the results table, a row for each held-out
    opponent.
    """
    curve = learning_curve(history, unit, adapts=True)
    return {"learning_curve": curve, "adaptation": adaptation(rows, unit)}


def learning_figures(
    history: History, policy: str, unit: str, gap_unit: str, exact: bool
) -> dict[str, Figure]:
    """Return the figures, by name, of a trainer whose model does not adapt.

    The first figure is the learning curve. If `exact`, the second figure shows the exploitability
    of the policy named `policy` over the iterations, in `gap_unit`.
    """
    drawn = {"learning_curve": learning_curve(history, unit, adapts=False)}
    if exact:
        name = gap_name(policy, gap_unit)
        measured = [(i, {**m, metric_names.ITERATIONS: float(i)}) for i, m in history if name in m]
        drawn["convergence"] = convergence(measured, gap_unit)
    return drawn


def safety(rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    """Plot payoff against exploitability of an adapting model, a chart for each held-out opponent.

    The model is evaluated under several upper bounds on its exploitability, and each bound gives a
    point. A black line shows the Pareto frontier: the maximum payoff of any strategy, as a function
    of its exploitability. `rows`: one dictionary for each opponent, with these keys:

    - `stranger`: name of the held-out opponent.
    - `adapted`: a dictionary for each bound. `payoff` and `exploitability` are those of the model,
      `most` is the highest payoff of a strategy that is no more exploitable.
    - `frontier`: a dictionary with `payoff` and `exploitability` for each further point of the
      Pareto frontier.
    """
    figure, axes = panels(len(rows), 3.2 * len(rows), 3.6)
    for axis, colour, row in zip(axes, itertools.cycle(COLOURS), rows):
        best = [(p["exploitability"], p["payoff"]) for p in row["frontier"]]
        best = sorted([*best, *((p["exploitability"], p["most"]) for p in row["adapted"])])
        axis.plot(*zip(*best, strict=True), color="black", lw=1, label="best possible")
        ours = [(p["exploitability"], p["payoff"]) for p in row["adapted"]]
        axis.plot(*zip(*sorted(ours), strict=True), "o-", color=colour, ms=4, label="adapted")
        axis.set_xscale("symlog", linthresh=0.01)  # includes 0
        axis.set(title=opponent_label(row["stranger"]), xlabel=f"exploitability, {unit}")
        axis.set_xlim(0, None)
        axis.legend(fontsize=7)
    axes[0].set_ylabel(f"payoff, {unit} a game")
    return figure


def policies_by_hand(probabilities: Array, hands: Sequence[str], actions: Sequence[str]) -> Figure:
    """Draw the action probabilities with each hand, one chart for each member of a population.

    `probabilities`: (members, hands, A). Follows Fig. 4 of Wu et al. 2022.
    """
    members = len(probabilities)
    figure, axes = panels(members, max(6.4, 2.6 * members), 4, sharey=True)
    below = np.cumsum(probabilities, axis=2) - probabilities
    for member, axis in enumerate(axes):
        for a, action in enumerate(actions):
            heights, bottom = probabilities[member, :, a], below[member, :, a]
            axis.bar(hands, heights, bottom=bottom, color=COLOURS[a % 7], label=action)
        axis.set(title=f"opponent {member + 1}", xlabel="hand", ylim=(0, 1))
    axes[0].set_ylabel("probability")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def parallel_coordinates(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Figure:
    """Draw the trials of a sweep in parallel coordinates: one axis for each key, the last for rank.

    `rows`: the trials, the best first, with the searched keys, `score` and `iterations`. A trial
    without a score is labelled with the iteration at which it stopped. `keys`: the searched job
    keys.
    """
    from matplotlib import colormaps

    figure, (axis,) = panels(1, 6.4, 4)
    scales = [sorted({str(row[key]) for row in rows}, key=_by_size) for key in keys]
    for k, scale in enumerate(scales):
        for height, value in zip(_heights(scale), scale, strict=True):
            axis.text(k, height, f" {value}", fontsize=7)
    heights = _heights(rows)[::-1]
    for row, height in zip(rows[::-1], heights[::-1], strict=True):  # the best on top
        line = [
            _heights(scale)[scale.index(str(row[key]))]
            for key, scale in zip(keys, scales, strict=True)
        ]
        axis.plot([*line, height], color=colormaps["viridis"](height))
        end = f"stop {row['iterations']}" if row["score"] is None else f"{row['score']:.3g}"
        axis.text(len(keys), height, f" {end}", fontsize=7)
    axis.set_xticks(range(len(keys) + 1), [*keys, "score, by rank"])
    axis.set(yticks=[])
    return figure


def _heights(things: Sequence[Any]) -> Array:
    """Return evenly spaced y coordinates from 0 to 1 for drawing a sequence, one for each entry."""
    return np.linspace(0, 1, len(things)) if len(things) > 1 else np.ones(1)


def _by_size(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return 0.0, value


def save(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write each figure as NAME.png into a folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        save_png(figure, folder / f"{name}.png")


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file. Raises OSError, naming the file, if it cannot be written."""
    with replacing(path) as new:
        figure.savefig(new, dpi=120, format="png")
