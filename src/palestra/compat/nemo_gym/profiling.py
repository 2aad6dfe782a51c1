"""`nemo_gym.profiling`: a CPU profile of this process, written as a table and as a call graph.

Importing this module needs neither yappi nor Graphviz; starting a profile needs both.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from palestra.errors import ConfigError
from palestra.fleet import FunctionTimes, callgrind_of, function_times, table_of
from palestra.system import run

_DRAWING_S: Final = 120.0


class Profiler(BaseModel):
    """Measures how much CPU time each function takes, from `start` to `stop`.

    Files in `base_profile_dir`: `<name>.log` (a table of the functions), `<name>.callgrind`,
    `<name>.dot` and `<name>.png` (the call graph).
    """

    name: str = Field(pattern=r"^\S+$")
    """The name of the files; without spaces."""
    base_profile_dir: Path
    required_str: str | None = None
    """Only functions whose file or name contains this text are written. None: all functions."""

    def start(self) -> None:
        """Start the profile.

        Raises RuntimeError: the program `dot` of Graphviz is not on the `PATH`. ConfigError: yappi
        is not installed.
        """
        if shutil.which("dot") is None:
            raise RuntimeError(
                "profiling draws a picture of the calls with Graphviz, and its program `dot` is not "
                "on the PATH: install graphviz"
            )
        yappi = _yappi()
        self.base_profile_dir.mkdir(parents=True, exist_ok=True)
        yappi.set_clock_type("cpu")
        yappi.start()

    def stop(self) -> None:
        """Stop the profile and write its files."""
        _yappi().stop()
        self.dump()

    def dump(self) -> None:
        """Write the files of the profile so far."""
        functions = [
            function
            for function in function_times(_yappi().get_func_stats())
            if self.required_str is None or self.required_str in _full_name(function)
        ]
        self.base_profile_dir.mkdir(parents=True, exist_ok=True)
        self._file("log").write_text(table_of(functions))
        self._file("callgrind").write_text(callgrind_of(functions))
        self._file("dot").write_text(call_graph_of(functions))
        drawn = run(
            ["dot", "-Tpng", "-o", str(self._file("png")), str(self._file("dot"))],
            timeout_s=_DRAWING_S,
        )
        if drawn.code:
            raise RuntimeError(f"dot cannot draw {self._file('dot')}: {drawn.complaint}")

    def _file(self, suffix: str) -> Path:
        return self.base_profile_dir / f"{self.name}.{suffix}"


def _full_name(function: FunctionTimes) -> str:
    return f"{function.module}:{function.line} {function.name}"


def call_graph_of(functions: Sequence[FunctionTimes]) -> str:
    """Return the calls between `functions` as a graph in Graphviz's language. A node has the times
    of its function, in seconds; an edge has the number of calls.
    """
    indices = {function.index for function in functions}
    lines = ["digraph calls {", "  node [shape=box];"]
    for function in functions:
        label = f"{function.name}\ncalls {function.ncall}, total {function.ttot:.6f} s"
        lines.append(f"  {function.index} [label={json.dumps(label)}];")
        lines += [
            f'  {function.index} -> {callee.index} [label="{callee.ncall}"];'
            for callee in function.callees
            if callee.index in indices
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _yappi() -> Any:
    try:
        import yappi
    except ImportError as error:
        raise ConfigError(
            "profiling needs yappi, which is not installed",
            hint="pip install 'palestra[profiler]'",
        ) from error
    return yappi
