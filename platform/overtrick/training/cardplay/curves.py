"""Learning curves of card play (Hadjur 2018, Figs 5.1 and 5.2)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from overtrick.reports import learning_curves
from overtrick.reports.learning_curves import CONFIDENCE, Curves
from overtrick.reports.metric_names import GAMES, MADE, RECOGNISED, History


def cardplay_curves(groups: Mapping[str, Sequence[History]], deals: int) -> Figure:
    """Draw learning curves of a declarer over the number of training games.

    One chart for each defence shows the share of contracts made. Another chart shows the share of
    decisions in states that the declarer knows from training.

    `groups`: for each group's label the histories of its seeds; a group becomes one line. `deals`:
    number of deals of an evaluation, from which the confidence band of a single seed is computed.
    """
    every = [entry for histories in groups.values() for each in histories for entry in each]
    names = sorted({n for _, m in every for n in m if n.startswith(MADE) or n == RECOGNISED})
    drawn: Curves = {name: {} for name in names}
    for name, (label, histories) in itertools.product(names, groups.items()):
        seeds = [{m[GAMES]: m[name] for _, m in each if name in m} for each in histories]
        curve = learning_curves.seed_curve(seeds)
        if curve is None:
            continue
        games, mean, half = curve
        if len(seeds) == 1:
            half = norm.ppf((1 + CONFIDENCE) / 2) * np.sqrt(mean * (1 - mean) / deals)
        drawn[name][label] = games, mean, half
    return learning_curves.draw_curves(drawn, "games played", "share", marker="o")
