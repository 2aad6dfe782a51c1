"""A server that stops: an author's `stop` may fail or hang."""

import asyncio

import pytest

from author_servers import server_of
from palestra.fleet.build import stop_server
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Scoring(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class Failing(Scoring):
    async def stop(self) -> None:
        raise RuntimeError("the socket is gone")


class Hanging(Scoring):
    async def stop(self) -> None:
        await asyncio.Event().wait()


def test_a_stop_that_fails_is_logged_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(stop_server(server_of(Failing), 1.0))

    [record] = caplog.records
    assert ".stop raised RuntimeError: the socket is gone" in record.getMessage()
    assert __file__ in record.getMessage()


def test_a_stop_that_hangs_ends_at_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(asyncio.wait_for(stop_server(server_of(Hanging), 0.01), 10))

    assert caplog.records == []
