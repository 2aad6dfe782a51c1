"""Run yappi over the servers of one process and write its results. Only this module uses yappi."""

import asyncio
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self, final

from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from palestra.config import ConfigTree
from palestra.errors import CallError, CallEvidence, ConfigError, InfraError
from palestra.fleet.server_profiles.attributed import ProfiledServer, running
from palestra.fleet.server_profiles.picture import Callee, FunctionTimes, flame_chart
from palestra.server import Boundary, RefusalEnvelopes, Server
from palestra.system import write_whole
from palestra.transport import ASGIApp

COLUMNS: Final = ("name", "ncall", "tsub", "ttot", "tavg")


def function_times(statistics: Any) -> list[FunctionTimes]:
    """Return the times of the functions in yappi's `statistics`."""
    return [
        FunctionTimes(
            index=function.index,
            module=function.module,
            line=function.lineno,
            function=function.name,
            ncall=function.ncall,
            tsub=function.tsub,
            ttot=function.ttot,
            callees=tuple(Callee(c.index, c.ncall, c.ttot) for c in function.children),
        )
        for function in statistics
    ]


def table_of(functions: Sequence[FunctionTimes]) -> str:
    """Return a text table: the column names, then one line per function, with the largest `ttot`
    first.
    """
    rows = [
        (
            function.name,
            str(function.ncall),
            f"{function.tsub:.6f}",
            f"{function.ttot:.6f}",
            f"{function.tavg:.6f}",
        )
        for function in sorted(functions, key=lambda function: (-function.ttot, function.name))
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    return "\n".join(_line(row, widths) for row in (COLUMNS, *rows)) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    aligned = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
    return "  ".join([name.ljust(widths[0]), *aligned])


def callgrind_of(functions: Sequence[FunctionTimes]) -> str:
    """Return the times in callgrind format, in microseconds, for KCachegrind and similar tools. The
    process's command line is left out.
    """
    indices = {function.index for function in functions}
    lines = ["version: 1", "creator: palestra", "positions: line", "events: Microseconds", ""]
    for function in functions:
        lines += [
            f"fl=({function.index}) {function.module}",
            f"fn=({function.index}) {function.name}",
        ]
        lines += [f"{function.line} {round(function.tsub * 1e6)}"]
        for callee in function.callees:
            if callee.index in indices:
                lines += [f"cfi=({callee.index})", f"cfn=({callee.index})"]
                lines += [f"calls={callee.ncall} 0", f"{function.line} {round(callee.ttot * 1e6)}"]
        lines.append("")
    # A name is told where its number first stands, which may be in a call.
    return _named_first(lines, functions)


def _named_first(lines: Sequence[str], functions: Sequence[FunctionTimes]) -> str:
    names = {f"({function.index})": function for function in functions}
    names_given: set[str] = set()
    out: list[str] = []
    for line in lines:
        key, _, value = line.partition("=")
        if key in {"fl", "fn", "cfi", "cfn"}:
            number = value.partition(" ")[0]
            kind = "file" if key in {"fl", "cfi"} else "function"
            name = names[number].module if kind == "file" else names[number].name
            is_named = kind + number in names_given
            names_given.add(kind + number)
            out.append(f"{key}={number}" if is_named else f"{key}={number} {name}")
        else:
            out.append(line)
    return "\n".join(out) + "\n"


FOLDER: Final = "profiling_results_dirpath"


def profiler_of(tree: ConfigTree, *, shared: bool) -> "Profiler":
    """Return the profiler of this process. `shared`: several servers live in this process.

    Raises ConfigError: no folder for the results is set, or yappi is not installed.
    """
    folder = tree.get(FOLDER)
    if not folder:
        raise ConfigError(
            f"profiling needs a folder for its results: {FOLDER}",
            hint=f"+profiling_enabled=true +{FOLDER}=results/profiling",
        )
    return Profiler(Path(str(folder)), shared=shared)


@final
class Profiler:
    """Profiles this process from `start` to `finish`, which writes the files of every server.

    Files of server `x` in the folder: `x.log` (a table of the server's own code), `x.all.log` (of
    all code that ran for the server), `x.callgrind`, `x.svg`.
    """

    def __init__(self, folder: Path, *, shared: bool) -> None:
        try:
            import yappi
        except ImportError as error:
            raise ConfigError(
                "profiling needs yappi, which is not installed",
                hint="pip install 'palestra[profiler]'",
            ) from error
        self._yappi: Any = yappi
        self._folder = folder
        self._shared = shared
        self._numbers: dict[str, int] = {}
        self._folders: dict[str, Path] = {}
        self._started = False

    def start(self) -> Self:
        """Start profiling. Raises ConfigError: the folder cannot be created, or yappi already runs
        in this process.
        """
        if self._yappi.is_running():
            raise ConfigError(
                "yappi is profiling this process already, and only one profiler can run at a time"
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {self._folder}: {error.strerror}") from error
        self._yappi.clear_stats()
        self._yappi.set_clock_type("cpu")
        if self._shared:
            # Asked at every call: a method of C, which costs little and is not profiled itself.
            self._yappi.set_tag_callback(running.get)
        self._yappi.start(builtins=False)
        self._started = True
        return self

    def over(self, server: Server, *, name: str = "", token: str = "") -> ProfiledServer:
        """Return `server` wrapped, so that its code is profiled. `name`: the name of its files; by
        default the server's name.
        """
        name = name or server.name
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        self._folders[name] = Path(inspect.getfile(type(server))).parent
        return ProfiledServer(number, server, self._stats_app(name, token))

    def finish(self) -> None:
        """Stop profiling and write the files of every server. Do nothing if profiling never
        started.
        """
        if not self._started:
            return
        self._started = False
        self._yappi.stop()
        try:
            for name in self._numbers:
                self.write(name)
                path = self._path(name, ".log").absolute()
                sys.stderr.write(f"{name}: where its time went is in {path}\n")
                sys.stderr.flush()
        finally:
            self._yappi.clear_stats()
            self._yappi.set_tag_callback(None)

    def write(self, name: str) -> str:
        """Write the current results of one server, and return the table of the server's own code."""
        functions = self._functions(self._numbers[name])
        table = table_of(
            [function for function in functions if function.is_of(self._folders[name])]
        )
        for suffix, text in (
            (".log", table),
            (".all.log", table_of(functions)),
            (".callgrind", callgrind_of(functions)),
            (".svg", flame_chart(name, functions)),
        ):
            write_whole(self._path(name, suffix), text.encode())
        return table

    def _path(self, name: str, suffix: str) -> Path:
        safe = re.sub(r"[^\w.#-]", "_", name)
        return self._folder / f"{safe}{suffix}"

    def _functions(self, number: int) -> list[FunctionTimes]:
        # A process of its own is the server's, all that runs in it.
        statistics = self._yappi.get_func_stats(filter={"tag": number} if self._shared else None)
        return function_times(statistics)

    def _stats_app(self, name: str, token: str) -> ASGIApp:
        app = FastAPI(openapi_url=None)

        @app.get("/stats")
        async def stats() -> PlainTextResponse:
            return PlainTextResponse(await asyncio.to_thread(self.write, name))

        return Boundary(
            app,
            server=name,
            refusals=RefusalEnvelopes(app, server=name, own_failure=_own_failure),
            on_error=lambda path, error: _raised(name, path, error),
            token=token,
        )


def _own_failure(_path: str, message: str, evidence: CallEvidence) -> CallError:
    return InfraError(message, evidence=evidence)


def _raised(name: str, path: str, error: BaseException) -> CallError:
    if isinstance(error, CallError):
        return error
    return InfraError(f"{name}{path} raised {type(error).__name__}: {error}")
