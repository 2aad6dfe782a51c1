"""Server processes whose event loops are blocked, as the fleet that watches them reports them."""

from dataclasses import dataclass
from typing import Any, Self

from palestra.errors import CallError, RowIdentity, from_body, to_body
from palestra.schema import JsonDict


@dataclass(frozen=True, slots=True)
class BlockedServer:
    """One process whose event loop does not run. `server`: the name of its instance.

    `message`: a sentence that says since when, and what it executes. `failures`: for each call of an
    author's code that it executes, the failure of the rollout that made the call.
    """

    server: str
    message: str
    failures: tuple[CallError, ...] = ()

    def failure_of(self, row: RowIdentity) -> CallError | None:
        """Return the failure of a call that any attempt of the rollout `row` made; None without
        one.
        """
        same = (failure for failure in self.failures if _is_same(failure.evidence.row, row))
        return next(same, None)

    @property
    def is_blocked_by_rollout(self) -> bool:
        """Whether a call of a known rollout is executing."""
        return any(failure.evidence.row is not None for failure in self.failures)

    def as_json(self) -> JsonDict:
        """Return the JSON object that a fleet's head sends."""
        failures = [to_body(failure) for failure in self.failures]
        return {"server": self.server, "message": self.message, "failures": failures}

    @classmethod
    def from_json(cls, fields: Any) -> Self:
        """Return the server in a JSON object of `as_json`. Raises ValueError, TypeError or KeyError:
        the object has another form.
        """
        failures = tuple(filter(None, map(from_body, fields["failures"])))
        return cls(str(fields["server"]), str(fields["message"]), failures)


def _is_same(row: RowIdentity | None, rollout: RowIdentity) -> bool:
    if row is None:
        return False
    return (row.run, row.task, row.rollout) == (rollout.run, rollout.task, rollout.rollout)
