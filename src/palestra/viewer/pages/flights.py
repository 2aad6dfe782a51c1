"""Why a rollout has no result yet: in flight, not started, not run, or failed."""

from palestra import rollouts
from palestra.viewer.index import IndexSnapshot
from palestra.viewer.pages.tables import key_of_row
from palestra.viewer.requests import PageRequest


def why_unscored(request: PageRequest, snapshot: IndexSnapshot, row: int) -> str:
    """Return why a rollout without a result has none, as far as the files and a collection that
    runs now say.
    """
    has_failed = bool(len(snapshot.attempts(row)))
    live = request.viewer.catalog.live(request.run.place.outputs)
    if live is None:
        return "it failed" if has_failed else "it has not ended"
    return rollouts.why_unscored(live.report, *key_of_row(snapshot, row), has_failed=has_failed)
