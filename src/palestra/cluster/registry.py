"""Which runs this user has submitted, by name: for `--run-after NAME` and `cluster status NAME`.

One file in the user's state folder, appended to; the last run of a name is the one that is meant.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from palestra.cluster.records import append_line, read_lines

VARIABLE = "PALESTRA_STATE_DIR"


@dataclass(frozen=True, slots=True)
class Known:
    """One run: its name, its output folder, and how its jobs are asked for."""

    name: str
    output_dir: str
    executor: str
    timeout_s: float = 60.0


def registry_file(environ: Mapping[str, str] | None = None) -> Path:
    """`$PALESTRA_STATE_DIR`, else `$XDG_STATE_HOME/palestra`, else `~/.local/state/palestra`."""
    given = environ if environ is not None else os.environ
    if folder := given.get(VARIABLE):
        return Path(folder) / "cluster-runs.jsonl"
    base = given.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "palestra" / "cluster-runs.jsonl"


def remember(run: Known, path: Path | None = None) -> None:
    """Append a run. Raises OSError."""
    target = path or registry_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    append_line(target, asdict(run))


def known_run(name: str, path: Path | None = None) -> Known | None:
    """The last run of that name; None when there was none."""
    target = path or registry_file()
    found = [line for line in read_lines(target) if line.get("name") == name]
    return Known(**found[-1]) if found else None
