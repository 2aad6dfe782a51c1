"""The curves of several trainings, in one picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

WINDOW = 5
"""Steps that a point is the mean of: a step's own 256 rollouts scatter by 0.03."""


def plot_rewards(curves: Sequence[Sequence[float]], path: Path) -> None:
    """One thin line for each training, and a bold one for their mean. SVG or PNG, as `path` ends."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for index, curve in enumerate(curves):
        axes.plot(smooth(curve), color="C0", alpha=0.4, linewidth=1, label=label(index))
    steps = min(map(len, curves))
    together = [fmean(curve[step] for curve in curves) for step in range(steps)]
    axes.plot(smooth(together), color="C0", linewidth=2, label=f"mean of {len(curves)} seeds")
    axes.set(xlabel="step", ylabel="mean reward", ylim=(0, 1), title="GRPO on chain_sum")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)


def smooth(curve: Sequence[float]) -> list[float]:
    """The mean of the last few steps, at each step."""
    return [fmean(curve[max(0, at - WINDOW + 1) : at + 1]) for at in range(len(curve))]


def label(index: int) -> str:
    """Of one line; those after the first have none, so that the legend names them once."""
    return "one seed" if index == 0 else "_"
