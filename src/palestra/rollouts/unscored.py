"""What a run's files say about the rollouts that have no score."""

from palestra.rollouts.recorded import recorded_rows, scored_keys
from palestra.rollouts.settings import RunPaths
from palestra.schema import FAILURE_CLASS, FailedAttempts, Unscored


def unscored_in(paths: RunPaths, *, requested: int) -> Unscored:
    """The rollouts without a score, by what helps. Raises InputDataError for a broken file."""
    scored = scored_keys(paths.output)
    attempts = FailedAttempts()
    for row in recorded_rows(paths.failures, FAILURE_CLASS):
        attempts.note(row)
    return attempts.unscored(scored=scored, missing=requested - len(scored | attempts.keys()))
