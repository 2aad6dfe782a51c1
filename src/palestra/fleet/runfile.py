"""Run files, with which a command finds the fleet that it belongs to, and no other fleet.

Each fleet writes `<port>.json` (readable by its user only) with its address and a nonce. The
fleet's head server returns the same nonce. A fleet that ends writes its reason to `<port>.ended`,
for commands that were attached to it. A fleet that is killed (SIGKILL) writes no such file.
"""

import contextlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from palestra.errors import CallError, RunFailed, ServerDied, from_body, to_body
from palestra.fleet.sockets import http_url, reachable_host
from palestra.fleet.stacks import row_name
from palestra.schema import JsonDict
from palestra.system import born_at, run_dir, write_whole

ENDED_KEPT_S: Final = 3600.0
"""The seconds for which the file about an ended fleet is kept. Attached commands look for it every
second."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """One running fleet. `started` is seconds since the epoch."""

    host: str
    port: int
    nonce: str
    pid: int
    started: float
    folder: str = ""
    """The fleet's working directory, in which its relative paths are; empty when unknown."""

    @property
    def url(self) -> str:
        """The head server's address."""
        return http_url(reachable_host(self.host), self.port)

    def alive(self) -> bool:
        """Whether the process that wrote the run file still runs."""
        return bool(born_at(self.pid))


@dataclass(frozen=True, slots=True)
class EndedFleet:
    """How a fleet ended. `message` and `hint` are those of its error. The other fields describe the
    first server process that died.

    `servers_lived`: no server had died; the fleet was stopped, or its command failed. `failure`: the
    error body of the rollout whose call ended a server process, or made the fleet end it; None
    without one.
    """

    nonce: str
    message: str
    hint: str
    servers_lived: bool = False
    server: str = ""
    server_pid: int | None = None
    returncode: int = 0
    last_lines: tuple[str, ...] = ()
    failure: JsonDict | None = None

    def as_error(self) -> RunFailed:
        """Return the error for a command that used the fleet: ServerDied when a server had died."""
        if self.servers_lived:
            return RunFailed(self.message, hint=self.hint)
        return ServerDied(
            self.message, hint=self.hint, server=self.server, failure=from_body(self.failure)
        )


def write_run_file(run: RunFile) -> Path:
    """Write the run file in one step, so that no reader sees half of it."""
    path = _write(f"{run.port}.json", asdict(run))
    _ended_path(run.port).unlink(missing_ok=True)
    return path


def write_ended_fleet(run: RunFile, fleet_end: EndedFleet) -> None:
    """Write how the fleet of `run` ended, and remove such files of other fleets that are older than
    `ENDED_KEPT_S`.
    """
    for path in run_dir().glob("*.ended"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ENDED_KEPT_S:
                path.unlink()
    _write(_ended_path(run.port).name, asdict(fleet_end))


def end_killed_fleet(run: RunFile, reason: str, hint: str, failure: CallError | None) -> None:
    """Do what the process of the fleet `run` could not do before it ended: write how it ended, and
    remove its run file.

    `failure`: of the rollout because of which it ended; None when this is not known.
    """
    row = None if failure is None else failure.evidence.row
    culprit = "" if row is None else f"{row_name(row)}: "
    fleet_end = EndedFleet(
        run.nonce,
        f"the fleet at {run.url} (process {run.pid}) has ended: {culprit}{reason}",
        hint,
        failure=None if failure is None else to_body(failure),
    )
    write_ended_fleet(run, fleet_end)
    remove_run_file(run)


def read_ended_fleet(run: RunFile) -> EndedFleet | None:
    """Return how the fleet of `run` ended; None while it runs, and when it was killed."""
    try:
        fields = orjson.loads(_ended_path(run.port).read_bytes())
        fleet_end = EndedFleet(**fields | {"last_lines": tuple(fields["last_lines"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return fleet_end if fleet_end.nonce == run.nonce else None


def _ended_path(port: int) -> Path:
    return run_dir() / f"{port}.ended"


def _write(name: str, fields: JsonDict) -> Path:
    folder = run_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / name, orjson.dumps(fields), mode=0o600)
    return folder / name


def read_run_file(port: int) -> RunFile | None:
    """Return the run file of the fleet whose head listens on `port`; None when it does not exist or
    cannot be read.
    """
    return _read_one(run_dir() / f"{port}.json")


def live_run_files() -> list[RunFile]:
    """Return the run files of this user's running fleets, newest first."""
    run_files = [_read_one(path) for path in run_dir().glob("*.json")]
    live = [run for run in run_files if run is not None and run.alive()]
    return sorted(live, key=lambda run: -run.started)


def remove_run_file(run: RunFile) -> None:
    """Remove the run file, unless another fleet has taken the port since."""
    current = read_run_file(run.port)
    if current is not None and current.nonce == run.nonce:
        (run_dir() / f"{run.port}.json").unlink(missing_ok=True)


def _read_one(path: Path) -> RunFile | None:
    try:
        return RunFile(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
