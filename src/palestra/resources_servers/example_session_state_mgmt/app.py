"""A counter in the session: the row sets it, tool calls change it, and `verify` compares it."""

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
    """The fields of a row that seed the session."""

    initial_count: int = 0
    """The value of the counter before the first call."""


class CounterVerifyRequest(VerifyRequest):
    """The fields of a row that the verifier needs."""

    initial_count: int = 0
    """The value of the counter before the first call."""

    expected_count: int
    """The value that the counter must have after the last call."""


class CounterServer(ResourcesServer):
    """A resources server with one counter per session."""

    repeatable: ClassVar[bool | None] = True

    # `verify` replays the increments when there is no session.
    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    async def seed_session(self, body: CounterSeedRequest, session: Session) -> SeedSessionResponse:
        """Set the counter to the row's `initial_count`."""
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
        """Return one increment by the missing amount; None when the count is already right."""
        missing = row["expected_count"] - row.get("initial_count", 0)
        return response_of(called("increment_counter", {"count": missing})) if missing else None

    async def verify(self, body: CounterVerifyRequest, session: Session) -> VerifyResponse:
        """Return reward 1.0 when the counter equals `expected_count`; else 0.0.

        A stored response is verified without its session. Its increments are then added up from the
        trajectory. The count is the same, because a call ran only if its output reports success.
        """
        count = session.state.get(COUNTER)
        if count is None:
            count = body.initial_count + replayed(body.response)
        return self.reply(body, float(count == body.expected_count))


def replayed(response: Response) -> int:
    """Add up the successful increments of a trajectory."""
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
