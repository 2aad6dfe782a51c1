"""A flame chart of where a server's time goes: callers above their callees, and a box's width is
its time.

The profile has one time per caller of a function, not one per call path. So below a function with
several callers, the callees' times are split in proportion to the callers' times.
"""

import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

_ROOTS: Final = tuple(
    f"{root}/"
    for root in (
        str(Path(__file__).parents[3]),
        *(sysconfig.get_path(name) for name in ("purelib", "platlib", "platstdlib", "stdlib")),
    )
)


@dataclass(frozen=True, slots=True)
class Callee:
    """One function that a function called: its `FunctionTimes.index`, the number of calls, and the
    total time.
    """

    index: int
    ncall: int
    ttot: float


@dataclass(frozen=True, slots=True)
class FunctionTimes:
    """The times of one function, for one server."""

    index: int
    module: str
    line: int
    function: str
    ncall: int
    tsub: float
    """Seconds in the function's own code."""
    ttot: float
    """Seconds in the function, including its callees."""
    callees: tuple[Callee, ...] = ()

    @property
    def tavg(self) -> float:
        """The average seconds of one call, including its callees."""
        return self.ttot / self.ncall if self.ncall else 0.0

    @property
    def name(self) -> str:
        """The function's place and name, as in `palestra/transport/peer.py:84 Peer.call`."""
        root = next((root for root in _ROOTS if self.module.startswith(root)), "")
        return f"{self.module[len(root) :]}:{self.line} {self.function}"

    def is_of(self, folder: Path) -> bool:
        """Whether the function is in the server's `folder`, or in another file outside Palestra,
        Python and the installed packages.
        """
        if self.module.startswith(f"{folder}/"):
            return True
        return self.module.startswith("/") and not self.module.startswith(_ROOTS)


WIDTH: Final = 1200.0
ROW: Final = 18
NARROWEST: Final = 1.0
"""The minimum width of a box in pixels. Narrower boxes are left out."""
DEEPEST: Final = 60
_LETTER: Final = 6.4
_COLOURS: Final = ("#e8743b", "#f2a33a", "#e9c46a", "#d9794f", "#f4b183")


@dataclass(frozen=True, slots=True)
class _Box:
    of: FunctionTimes
    left: float
    width: float
    depth: int
    took: float


def flame_chart(server: str, functions: Sequence[FunctionTimes]) -> str:
    """Return an SVG document without external resources. Pointing at a box shows its numbers."""
    by_index = {function.index: function for function in functions}
    boxes = list(_boxes(by_index))
    height = (max((box.depth for box in boxes), default=0) + 3) * ROW
    total = sum(function.tsub for function in functions)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}">',
        "<style>text { font: 11px monospace }</style>",
        f'<rect width="{WIDTH:g}" height="{height}" fill="#ffffff"/>',
        f'<text x="4" y="13">{escape(server)}: {total:.3f} CPU seconds</text>',
        *(_drawn(box, total) for box in boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _boxes(by_index: Mapping[int, FunctionTimes]) -> Iterator[_Box]:
    called = {
        c.index
        for function in by_index.values()
        for c in function.callees
        if c.index != function.index
    }
    roots = [function for index, function in by_index.items() if index not in called] or list(
        by_index.values()
    )
    roots.sort(key=lambda function: -function.ttot)
    total = sum(function.ttot for function in roots)
    offset = 0.0
    for root in roots:
        width = WIDTH * root.ttot / total if total else 0.0
        yield from _below(by_index, _Box(root, offset, width, 1, root.ttot), frozenset())
        offset += width


def _below(
    by_index: Mapping[int, FunctionTimes], box: _Box, above: frozenset[int]
) -> Iterator[_Box]:
    """Yield a box and the boxes of its callees. Recursive calls are drawn once."""
    if box.width < NARROWEST or box.depth > DEEPEST:
        return
    yield box
    offset = box.left
    above |= {box.of.index}
    share = min(1.0, box.took / box.of.ttot) if box.of.ttot else 0.0
    for callee in sorted(box.of.callees, key=lambda callee: -callee.ttot):
        function = by_index.get(callee.index)
        if function is None or callee.index in above:
            continue
        took = callee.ttot * share
        width = min(_width(box, took), box.left + box.width - offset)
        yield from _below(by_index, _Box(function, offset, width, box.depth + 1, took), above)
        offset += width


def _width(box: _Box, took: float) -> float:
    return box.width * took / box.took if box.took else 0.0


def _drawn(box: _Box, total: float) -> str:
    top = box.depth * ROW
    function = box.of
    share = 100 * box.took / total if total else 0.0
    tooltip = (
        f"{function.name}\n{box.took:.6f} s here ({share:.1f}%), {function.ncall} calls in all"
    )
    fits = int((box.width - 4) / _LETTER)
    text = (
        function.function
        if len(function.function) <= fits
        else function.function[: max(0, fits - 1)] + "…"
    )
    label = f'<text x="{box.left + 2:.1f}" y="{top + 13}">{escape(text)}</text>' if fits > 2 else ""
    colour = _COLOURS[function.index % len(_COLOURS)]
    return (
        f"<g><title>{escape(tooltip)}</title>"
        f'<rect x="{box.left:.1f}" y="{top}" width="{box.width:.1f}" height="{ROW - 1}" '
        f'fill="{colour}"/>{label}</g>'
    )
