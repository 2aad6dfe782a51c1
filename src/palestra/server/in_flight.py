"""The requests that a server process is answering now. They show why a fleet makes no progress.

`GET /palestra/in_flight` of every server lists them: the rollout, what is awaited, and for how
long.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

from palestra.schema import JsonDict
from palestra.transport import CallContext

IN_FLIGHT_PATH: Final = "/palestra/in_flight"


@dataclass(frozen=True, slots=True)
class UnderWay:
    """One request that is being answered. `since` is a `time.monotonic()` value."""

    path: str
    context: CallContext
    since: float = field(default_factory=time.monotonic)


@final
class InFlightCalls:
    """The requests from other processes that one server in this process is answering."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._calls: dict[int, UnderWay] = {}

    def begin(self, path: str, context: CallContext) -> int:
        """Add a request. Return the token for `end`."""
        call = UnderWay(path, context)
        self._calls[id(call)] = call
        return id(call)

    def end(self, token: int) -> None:
        """Remove a request: it has been answered, or its caller has disconnected."""
        self._calls.pop(token, None)

    def as_json(self) -> list[JsonDict]:
        """Return the requests as JSON objects, the oldest first."""
        now = time.monotonic()
        return [
            {
                "server": self.server,
                "path": call.path,
                "phase": activity.phase if activity is not None else "",
                "awaiting": activity.awaiting if activity is not None else "",
                "awaiting_s": round(now - (activity.since if activity else call.since), 3),
                "age_s": round(now - call.since, 3),
                "row": None if row is None else [row.run, row.task, row.rollout, row.attempt],
            }
            for call in tuple(self._calls.values())
            for activity, row in [(call.context.activity, call.context.row)]
        ]

    def lines(self) -> Iterator[str]:
        """Yield one line per request, for a log."""
        for call in self.as_json():
            row = f" for {call['row']}" if call["row"] else ""
            yield (
                f"{self.server}{call['path']}{row}: {call['age_s']:.1f} s, awaiting "
                f"{call['awaiting'] or call['phase']} for {call['awaiting_s']:.1f} s"
            )
