"""A server that changes the request it was handed is named when requests are debugged."""

import asyncio
import logging
from typing import Any

import pytest
from transport_worlds import ENVIRONMENT, IN_PROCESS, TURN, Counter, running

from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer
from palestra.transport.client import changes


class Meddling(ResourcesServer):
    """Changes what it was given, as `how` says."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        extra: dict[str, Any] = body.model_extra or {}
        match extra.get("how"):
            case "trajectory":
                body.response.model = "another"
            case "row":
                extra["board"]["cells"].append(1)
            case "own attribute":
                body.response = body.response.model_copy(update={"model": "another"})
        return self.reply(body, 1.0)


def said(how: str, cls: type[ResourcesServer] = Meddling, *, debug: bool = True) -> list[str]:
    """What is logged about a verify call that meddles so."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("palestra.transport")

    async def asked() -> None:
        async with running(IN_PROCESS, {ENVIRONMENT: cls}, debug=debug) as client:
            validated = VerifyRequest.model_validate({**TURN, "how": how, "board": {"cells": [0]}})
            body = {**validated.__dict__, **(validated.model_extra or {})}
            await client.peer(ENVIRONMENT).call("/verify", body, VerifyResponse)

    logger.addHandler(handler)
    try:
        asyncio.run(asked())
    finally:
        logger.removeHandler(handler)
    return [record for record in records if not record.startswith("request answered:")]


@pytest.mark.parametrize(
    ("how", "place"), [("trajectory", "/response/model"), ("row", "/board/cells")]
)
def test_a_server_that_changes_a_request_is_named_with_the_place(how: str, place: str) -> None:
    [line] = said(how)

    assert line.startswith(f"{ENVIRONMENT}/verify changed the request it was given, at {place}:")


@pytest.mark.parametrize("how", ["nothing", "own attribute"])
def test_a_server_that_leaves_the_request_alone_is_not(how: str) -> None:
    assert said(how) == []
    assert said("nothing", Counter) == []


def test_without_debugging_nothing_is_checked() -> None:
    assert said("trajectory", debug=False) == []


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (b'{"a":1}', b'{"a":1}', []),
        (b'{"a":1}', b'{"a":2,"b":3}', ["/a", "/b"]),
        (b'{"a":[1,{"b":2}]}', b'{"a":[1,{"b":3}]}', ["/a/1/b"]),
        (b'{"a":[1]}', b'{"a":[]}', ["/a"]),
        (b"[1]", b"2", ["/"]),
    ],
)
def test_the_places_that_changed_are_pointed_to(
    before: bytes, after: bytes, places: list[str]
) -> None:
    assert sorted(changes(before, after)) == places
