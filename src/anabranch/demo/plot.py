"""The latency of results over time as a PNG. matplotlib is an extra, loaded only when there is something to draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.demo.scenario import Phase
from anabranch.demo.summary import MEDIAN, P95, percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSTALL: Final = "pip install 'anabranch[demo]'"
_SHADES: Final = (("#f2a541", "#8f5a08"), ("#4f86c6", "#1f4e87"))
"""Of each phase: its surface, and the darker colour of its name."""
_POINTS, _LINE, _HIGH = "#b8b8b8", "#1b1b1b", "#c8443c"
_DOTS_MAX: Final = 20_000
"""More points than this would be one grey surface, and slow to draw."""


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def plot_latencies(
    file: Path, latencies: Sequence[tuple[float, float]], phases: Sequence[Phase], *, seconds: float
) -> None:
    """``latencies`` are pairs: when a result's rows were pushed, and how much later it was read; both in seconds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    dots = latencies[:: len(latencies) // _DOTS_MAX + 1]
    axes.scatter([at for at, _ in dots], [late for _, late in dots], s=9, color=_POINTS, label="one result", zorder=2)
    for share, name, color in ((MEDIAN, "median of each second", _LINE), (P95, "95 % of each second", _HIGH)):
        middles, values = _per_second(latencies, share)
        axes.plot(middles, values, color=color, linewidth=2, marker="o", markersize=3.5, label=name, zorder=3)
    top = 1.25 * max((late for _, late in latencies), default=1.0)  # room for the names of the phases
    axes.set_xlim(0, max(seconds, 1.0))
    axes.set_ylim(0, top)
    for row, (phase, (shade, dark)) in enumerate(zip(phases, _SHADES, strict=True)):
        if phase.begin_s >= seconds:
            continue
        end_s = min(phase.end_s, seconds)
        axes.axvspan(phase.begin_s, end_s, color=shade, alpha=0.18, linewidth=0, zorder=0)
        at = (phase.begin_s + 0.01 * seconds, top * (0.975 - 0.065 * row))
        axes.annotate(phase.words, at, va="top", fontsize=11, fontweight="bold", color=dark, zorder=4)
    _write_around(axes, [late for _, late in latencies])
    figure.savefig(file, format="png")


def _write_around(axes: Axes, latencies_s: Sequence[float]) -> None:
    median, high = percentile(latencies_s, MEDIAN), percentile(latencies_s, P95)
    told = f"median {median:.2f} s, 95 % {high:.2f} s" if median is not None and high is not None else "no results"
    axes.set_title(f"Result latency: {told}", fontsize=14, loc="left", pad=12)
    axes.set_xlabel("when the rows were pushed (s since the first)", fontsize=12)
    axes.set_ylabel("latency, push to reader (s)", fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(axis="y", color="#e4e4e4", zorder=1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", fontsize=10, framealpha=0.9)


def _per_second(latencies: Sequence[tuple[float, float]], share: float) -> tuple[list[float], list[float]]:
    by_second: defaultdict[int, list[float]] = defaultdict(list)
    for at, late in latencies:
        by_second[int(at)].append(late)
    found = [(second + 0.5, percentile(by_second[second], share) or 0.0) for second in sorted(by_second)]
    return [middle for middle, _ in found], [value for _, value in found]
