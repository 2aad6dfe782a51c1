"""`GET /reverify_mode`: whether an environment can verify a response whose session is gone."""

import asyncio
from typing import Any, ClassVar

import orjson
import pytest
from starlette.requests import Request

from palestra.config import PACKAGE_ROOT
from palestra.fleet import load_server_class
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, ReverifyMode, Session
from palestra.transport import HttpClient, ServerClient, call_asgi


class Plain(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class TakesSession(ResourcesServer):
    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, float(len(session.state)))


class TakesRequest(ResourcesServer):
    async def verify(self, body: VerifyRequest, request: Request) -> VerifyResponse:
        return self.reply(body, float(len(request.session)))


class Declared(TakesSession):
    reverify_mode: ClassVar[ReverifyMode] = "stateless"


class Unsupported(Plain):
    reverify_mode: ClassVar[ReverifyMode] = "unsupported"


def mode_of(cls: Any) -> str:
    config = cls.model_fields["config"].annotation
    server = cls(config=config(name="x"), server_client=ServerClient({}, HttpClient()))
    reply = asyncio.run(call_asgi(server.asgi_app(), "GET", "/reverify_mode"))
    mode: str = orjson.loads(reply.body)
    return mode


@pytest.mark.parametrize(
    ("cls", "mode"),
    [
        (Plain, "stateless"),
        (TakesSession, "unknown"),
        (TakesRequest, "unknown"),
        (Declared, "stateless"),
        (Unsupported, "unsupported"),
    ],
)
def test_a_verifier_that_cannot_reach_the_session_is_stateless_by_itself(
    cls: Any, mode: str
) -> None:
    assert mode_of(cls) == mode


PLAYED_BY_OTHERS = {"gymnasium", "openenv"}
"""Environments whose rewards only the library that played the episode can give."""


@pytest.mark.parametrize(
    "name", sorted(p.parent.parent.name for p in PACKAGE_ROOT.glob("resources_servers/*/configs/*"))
)
def test_every_shipped_environment_can_verify_stored_responses(name: str) -> None:
    cls = load_server_class(PACKAGE_ROOT / "resources_servers" / name / "app.py")

    assert (mode_of(cls) in {"stateless", "replay_tools"}) is (name not in PLAYED_BY_OTHERS)
