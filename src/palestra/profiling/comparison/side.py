"""One of two runs that are compared."""

from dataclasses import dataclass
from pathlib import Path

from palestra.errors import InputDataError
from palestra.profiling.fingerprints import Fingerprints, fingerprints
from palestra.profiling.frame import RunFrame
from palestra.profiling.load import load_run
from palestra.profiling.paths import ProfilePaths


@dataclass(frozen=True, slots=True)
class Side:
    """A run with what its tasks ask. `name`: A or B, or what the user calls it."""

    name: str
    rollouts: Path
    frame: RunFrame
    fingerprints: Fingerprints


def load_side(rollouts: Path, *, name: str) -> Side:
    """Load a run by its rollouts file; inputs and failures are found by name beside it.

    Parts of a run are accepted: what is missing is counted, not refused. Raises InputDataError
    when a file is not what it should be.
    """
    paths = ProfilePaths.for_rollouts(rollouts)
    if not rollouts.exists():
        raise InputDataError(
            f"there are no rollouts at {rollouts}", hint="give the scored rows of a run (.jsonl)"
        )
    if not paths.materialized_inputs.exists():
        raise InputDataError(
            f"the materialized inputs of {rollouts} are not there: {paths.materialized_inputs}",
            hint="a run's files stay together; the inputs say what was asked and how often",
        )
    frame = load_run(paths.materialized_inputs, rollouts, allow_partial=True)
    return Side(name, rollouts, frame, fingerprints(paths.materialized_inputs))
