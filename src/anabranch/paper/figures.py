"""What was measured as tables, as plain data, and as plots in the manner of the paper's figures 8 and 9."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.table import Table

from anabranch.paper.claims import after_kill, before_kill
from anabranch.paper.curves import MEDIAN, SHARES, Arrivals, curve_over_time, percentile_curve
from anabranch.paper.racing import FIGURE_8, INPUT_1, INPUT_2, JOIN_OUT, UNION_OUT, Found, figure_9
from anabranch.paper.wide_area import KILLED, PERIOD_S, Protection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INPUTS_FILE: Final = "figure-8.png"
TECHNIQUES_FILE: Final = "figure-9.png"

EVERY_S: Final = PERIOD_S
"""Figure 9 shows the median of so many seconds: in each interval every generator makes one row."""

_STYLES: Final[dict[str, tuple[str, str]]] = {
    UNION_OUT: ("#1f6fb4", "-"),
    JOIN_OUT: ("#c8443c", "-"),
    INPUT_1: ("#7aa9d2", "--"),
    INPUT_2: ("#dd9a94", "--"),
    Protection.NO_REPLICATION: ("#8a8a8a", "-"),
    Protection.REPLICATION: ("#1f6fb4", "-"),
    Protection.SYNCHRONIZATION: ("#d08a1d", "-"),
    Protection.DETERMINISTIC: ("#c8443c", "-"),
}


# --- tables and data -----------------------------------------------------------------------------------------------


def inputs_table(found: Found) -> Table:
    """Figure 8: percentiles of each curve."""
    table = _table("Figure 8: latency at OSU (s)", "tuples", "smallest", *(f"{share:g} %" for share in SHARES[1:]))
    for name, curve in found.inputs.items():
        table.add_row(name, f"{len(curve):,}", *(_seconds(curve.percentile(share)) for share in SHARES))
    return table


def techniques_table(found: Found) -> Table:
    """Figure 9: each technique before and after the failure."""
    table = _table(
        f"Figure 9: latency out of the Join, {KILLED} killed at {found.lengths.kill_s:.0f} s (s)",
        "tuples",
        "micro-batch",
        "median before",
        "median after",
        "longest gap before",
        "longest gap after",
    )
    for technique in found.techniques:
        facts = _technique_facts(found, technique)
        numbers = ("median_before_s", "median_after_s", "longest_gap_before_s", "longest_gap_after_s")
        batch_s = _mean_s(facts["batch_ms"].values())
        table.add_row(
            str(technique), f"{facts['tuples']:,}", _seconds(batch_s), *(_seconds(facts[key]) for key in numbers)
        )
    return table


def as_json(found: Found) -> dict[str, Any]:
    """Numbers and curves of both figures."""
    return {
        "figure_8": {
            "batch_ms": dict(found.batch_ms.get(FIGURE_8, {})),
            "curves": {
                name: {
                    "tuples": len(curve),
                    "latency_s": {f"{share:g}": curve.percentile(share) for share in range(101)},
                }
                for name, curve in found.inputs.items()
            },
        },
        "figure_9": {
            "killed": KILLED,
            "killed_at_s": found.lengths.kill_s,
            "techniques": {str(technique): _technique_facts(found, technique) for technique in found.techniques},
        },
    }


def _technique_facts(found: Found, technique: Protection) -> dict[str, Any]:
    arrivals, lengths = found.techniques[technique], found.lengths
    times, medians = curve_over_time(arrivals, EVERY_S)
    return {
        "tuples": len(arrivals),
        "median_before_s": before_kill(found, technique).percentile(MEDIAN),
        "median_after_s": after_kill(found, technique).percentile(MEDIAN),
        "batch_ms": dict(found.batch_ms.get(figure_9(technique), {})),
        "longest_gap_before_s": arrivals.longest_gap_s(0, lengths.kill_s),
        "longest_gap_after_s": arrivals.longest_gap_s(lengths.kill_s, lengths.end_s),
        "curve": [[at, round(median, 3)] for at, median in zip(times, medians, strict=True)],
    }


def _mean_s(lengths_ms: Collection[float]) -> float | None:
    return sum(lengths_ms) / len(lengths_ms) / 1000 if lengths_ms else None


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


# --- plots ---------------------------------------------------------------------------------------------------------


def plot(folder: Path, found: Found) -> list[Path]:
    """Both figures as PNG files; matplotlib is an extra, loaded only here."""
    files = [folder / INPUTS_FILE, folder / TECHNIQUES_FILE]
    _plot_inputs(files[0], found)
    _plot_techniques(files[1], found)
    return files


def _plot_inputs(file: Path, found: Found) -> None:
    figure, axes = _axes()
    for name, curve in found.inputs.items():
        latencies, shares = percentile_curve(curve.latency_s)
        color, line = _STYLES[name]
        axes.plot(latencies, shares, color=color, linestyle=line, linewidth=2, label=name)
    axes.set_xlim(0, 1.1 * max((_high(curve) for curve in found.inputs.values()), default=1.0))
    axes.set_ylim(0, 100)
    _write_around(axes, "Figure 8: sensitivity to slow input streams", "latency (s)", "percentile")
    axes.legend(loc="lower right", fontsize=11)
    figure.savefig(file, format="png")


def _high(curve: Arrivals) -> float:
    return curve.percentile(99) or 1.0


def _plot_techniques(file: Path, found: Found) -> None:
    figure, axes = _axes()
    for technique, arrivals in found.techniques.items():
        color, line = _STYLES[technique]
        times, medians = curve_over_time(arrivals, EVERY_S)
        axes.scatter(arrivals.at_s, arrivals.latency_s, s=16, color=color, alpha=0.35, linewidths=0, zorder=2)
        axes.plot(times, medians, color=color, linestyle=line, linewidth=2, marker="o", markersize=3, label=technique)
    kill_s = found.lengths.kill_s
    highest = [float(np.percentile(each.latency_s, 99)) for each in found.techniques.values() if len(each)]
    top = 1.25 * max(highest, default=1.0)
    axes.axvline(kill_s, color="#1b1b1b", linewidth=1, linestyle=":")
    axes.annotate(f"{KILLED} is killed", (kill_s, 0.97 * top), va="top", ha="right", fontsize=11, rotation=90)
    axes.set_xlim(0, found.lengths.end_s)
    axes.set_ylim(0, top)
    _write_around(axes, "Figure 9: latency under different techniques", "time (s)", "latency out of the Join (s)")
    axes.legend(loc="upper right", fontsize=11)
    figure.savefig(file, format="png")


def _axes() -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _write_around(axes: Axes, title: str, below: str, beside: str) -> None:
    axes.set_title(title, fontsize=14, loc="left", pad=12)
    axes.set_xlabel(below, fontsize=12)
    axes.set_ylabel(beside, fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(color="#e4e4e4", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
