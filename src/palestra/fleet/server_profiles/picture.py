"""A picture of where a server's time goes: callers above, what they called below, wide is long.

A profile knows how long a function took for each caller, not for each way to it: where a function
with several callers is drawn, what it called is shared out by those times.
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
    """What a function called: which (`FunctionTimes.index`), how often, and how long it took."""

    index: int
    ncall: int
    ttot: float


@dataclass(frozen=True, slots=True)
class FunctionTimes:
    """One function of one server."""

    index: int
    module: str
    line: int
    function: str
    ncall: int
    tsub: float
    """In its own code."""
    ttot: float
    """With what it called."""
    callees: tuple[Callee, ...] = ()

    @property
    def tavg(self) -> float:
        """One call, with what it called."""
        return self.ttot / self.ncall if self.ncall else 0.0

    @property
    def name(self) -> str:
        """`palestra/transport/peer.py:84 Peer.call`."""
        root = next((root for root in _ROOTS if self.module.startswith(root)), "")
        return f"{self.module[len(root) :]}:{self.line} {self.function}"

    def is_of(self, folder: Path) -> bool:
        """Whether it is code of the server in `folder`, or an author's that is installed nowhere."""
        if self.module.startswith(f"{folder}/"):
            return True
        return self.module.startswith("/") and not self.module.startswith(_ROOTS)


WIDTH: Final = 1200.0
ROW: Final = 18
NARROWEST: Final = 1.0
"""Pixels: what is narrower is left out."""
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
    """An SVG document that loads nothing; each box tells its numbers when pointed at."""
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
    """A box and what was called in it; recursion is drawn once."""
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
