"""A counter that lives in the session: seeded from the row, moved by tool calls, then compared."""

from typing import Annotated, Any, ClassVar

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    JsonObject,
    Response,
    SeedSessionRequest,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    called,
    response_of,
)
from palestra.server import ResourcesServer, ReverifyMode, Session, tool

COUNTER = "counter"

# Bounded, so that no number of increments leaves the range of JSON integers.
Step = Annotated[int, Field(ge=-(10**9), le=10**9)]

_STEP: TypeAdapter[int] = TypeAdapter(Step)


class CounterSeedRequest(SeedSessionRequest):
    """The row's part in the beginning."""

    initial_count: int = 0
    """What the counter shows before the first call."""


class CounterVerifyRequest(VerifyRequest):
    """The row's part in the verdict."""

    initial_count: int = 0
    """What the counter showed before the first call."""

    expected_count: int
    """What the counter must show after the last call."""


class CounterServer(ResourcesServer):
    """One counter per session."""

    repeatable: ClassVar[bool | None] = True

    # `verify` replays the increments when there is no session.
    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    async def seed_session(self, body: CounterSeedRequest, session: Session) -> SeedSessionResponse:
        """Set the counter."""
        session.state[COUNTER] = body.initial_count
        return SeedSessionResponse()

    @tool
    async def increment_counter(self, count: Step, session: Session) -> dict[str, bool]:
        """Add to the counter.

        count: how much to add
        """
        session.state[COUNTER] = session.state.get(COUNTER, 0) + count
        return {"success": True}

    @tool
    async def get_counter_value(self, session: Session) -> dict[str, int]:
        """Get the counter's value."""
        return {"count": session.state.get(COUNTER, 0)}

    def gold_response(self, row: JsonObject) -> Response | None:
        """One increment by what is missing; where nothing is, any answer is right."""
        missing = row["expected_count"] - row.get("initial_count", 0)
        return response_of(called("increment_counter", {"count": missing})) if missing else None

    async def verify(self, body: CounterVerifyRequest, session: Session) -> VerifyResponse:
        """1.0 when the counter shows `expected_count`; else 0.0.

        A stored response is verified again without the session it was made in. Its increments
        are then replayed from the trajectory, which gives the same count: only calls that the
        environment answered with success were ever run.
        """
        count = session.state.get(COUNTER)
        if count is None:
            count = body.initial_count + replayed(body.response)
        return self.reply(body, float(count == body.expected_count))


def replayed(response: Response) -> int:
    """What the increments of a trajectory add up to."""
    succeeded = {
        item.call_id
        for item in response.output
        if isinstance(item, FunctionCallOutput) and _decoded(item.output) == {"success": True}
    }
    return sum(
        _step(item)
        for item in response.output
        if isinstance(item, FunctionCall)
        and item.name == "increment_counter"
        and item.call_id in succeeded
    )


def _step(call: FunctionCall) -> int:
    arguments = _decoded(call.arguments)
    try:
        return _STEP.validate_python(arguments.get("count") if isinstance(arguments, dict) else 0)
    except ValidationError:
        return 0


def _decoded(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return None
