"""What a profile says of one function, whatever took the profile. Times are CPU seconds."""

import sysconfig
from dataclasses import dataclass
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
