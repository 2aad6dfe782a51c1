"""One of two runs that are compared."""

from dataclasses import dataclass
from pathlib import Path

from palestra.analysis.fingerprints import Fingerprints, fingerprints
from palestra.analysis.frame import RunFrame
from palestra.analysis.load import load_run
from palestra.analysis.sources import rollout_files
from palestra.errors import InputDataError
from palestra.schema import RunPaths, with_compressed


@dataclass(frozen=True, slots=True)
class Side:
    """A run with what its tasks ask. `name`: A or B, or what the user calls it."""

    name: str
    rollouts: str
    """As the user named it: a file, or a glob of shards."""
    frame: RunFrame
    fingerprints: Fingerprints


def load_side(rollouts: Path | str, *, name: str) -> Side:
    """Load a run by its rollouts; inputs and failures are found by name beside them.

    `rollouts`: a file or a glob of shards. Parts of a run are accepted: what is missing is counted,
    not refused. Raises InputDataError when a file is not what it should be.
    """
    for path in rollout_files(rollouts):
        if not path.exists():
            raise InputDataError(
                f"there are no rollouts at {path}", hint="give the scored rows of a run (.jsonl)"
            )
        wanted = RunPaths(path).materialized_inputs
        if with_compressed(wanted) is None:
            raise InputDataError(
                f"the materialized inputs of {path} are not there: {wanted}",
                hint="a run's files stay together; the inputs say what was asked and how often",
            )
    frame = load_run(None, rollouts, allow_partial=True)
    return Side(name, str(rollouts), frame, fingerprints(frame.requests.places.files))


def refuse_shared_files(runs: list[str]) -> None:
    """Raise InputDataError when two runs, each a file or a glob, have a file in common."""
    seen: dict[Path, str] = {}
    for run in runs:
        for path in rollout_files(run):
            other = seen.setdefault(path.resolve(), run)
            if other != run or runs.count(run) > 1:
                what = "is given twice" if other == run else f"is in {other} and in {run}"
                raise InputDataError(
                    f"{path} {what}: these are not two runs",
                    hint="give the rollouts of different runs",
                )
