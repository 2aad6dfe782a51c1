"""What a model server says of its endpoint, asked over its own `/endpoint`: in any placement."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from palestra.errors import InfraError, from_body
from palestra.server.model_server import CHECK_PATH, EndpointFacts
from palestra.transport import CallContext, ServerClient, calling

ONE_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    """In a few words for people, and as facts."""

    text: str
    facts: EndpointFacts


async def ask_endpoint(
    client: ServerClient, name: str, *, within_s: float = ONE_ANSWER_S
) -> EndpointSaid:
    """What the model server `name` says. Raises `CallError` with what is wrong."""
    with calling(CallContext(deadline=time.monotonic() + within_s)):
        reply = await client.get(name, CHECK_PATH, stateless=True)
    if reply.status in {404, 405}:
        return EndpointSaid("a server that cannot be asked for its endpoint", EndpointFacts())
    try:
        body = await reply.json()
    except ValueError:
        body = None
    if not reply.ok or not isinstance(body, Mapping):
        raise from_body(body) or InfraError(f"{name}{CHECK_PATH} answered {reply.status}")
    return EndpointSaid(str(body.get("endpoint")), _facts(body.get("facts")))


def _facts(told: Any) -> EndpointFacts:
    """Those of a server of another version may be missing, or others."""
    try:
        return msgspec.convert(told, EndpointFacts)
    except msgspec.ValidationError:
        return EndpointFacts()
