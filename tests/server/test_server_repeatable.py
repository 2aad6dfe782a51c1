"""`GET /repeatable`: whether a rollout that has begun in an environment may be begun again."""

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any, ClassVar

import orjson
import pytest
from fastapi import FastAPI

from palestra import resources_servers
from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, ReverifyMode, tool
from palestra.server.tools import is_tool
from palestra.transport import HttpClient, ServerClient, call_asgi


async def _book() -> dict[str, str]:
    return {}


class Plain(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class WithTool(Plain):
    @tool
    async def send(self) -> str:
        """Send a letter."""
        return "sent"


class Seeding(Plain):
    async def seed_session(self, body: SeedSessionRequest) -> SeedSessionResponse:
        return SeedSessionResponse()


class OwnRoutes(Plain):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.add_api_route("/book", _book, methods=["POST"])
        return app


class Stateless(WithTool):
    reverify_mode: ClassVar[ReverifyMode] = "stateless"


class Replayable(WithTool):
    reverify_mode: ClassVar[ReverifyMode] = "replay_tools"


class Declared(WithTool):
    repeatable = True


class Denied(Plain):
    repeatable = False


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Plain, True),
        (WithTool, False),
        (Seeding, False),
        (OwnRoutes, False),
        (Stateless, False),
        (Replayable, True),
        (Declared, True),
        (Denied, False),
    ],
)
def test_what_may_have_done_something_outside_must_declare_it(cls: Any, said: bool) -> None:
    config = cls.model_fields["config"].annotation
    server = cls(config=config(name="x"), server_client=ServerClient({}, HttpClient()))

    reply = asyncio.run(call_asgi(server.asgi_app(), "GET", "/repeatable"))

    assert orjson.loads(reply.body) == {"repeatable": said}


def shipped() -> Iterator[type[ResourcesServer]]:
    """The environments that come with Palestra."""
    for module in pkgutil.walk_packages(resources_servers.__path__, "palestra.resources_servers."):
        if module.name.endswith(".app"):
            found = importlib.import_module(module.name)
            for _, kind in inspect.getmembers(found, inspect.isclass):
                if issubclass(kind, ResourcesServer) and kind.__module__ == found.__name__:
                    yield kind


@pytest.mark.parametrize("kind", list(shipped()), ids=lambda kind: kind.__module__.split(".")[-2])
def test_the_environments_that_come_along_say_so_where_it_is_not_plain(kind: Any) -> None:
    plain = (
        kind.seed_session is ResourcesServer.seed_session
        and kind.setup_webserver is ResourcesServer.setup_webserver
        and kind.routes is ResourcesServer.routes
        and not inspect.getmembers(kind, is_tool)
    )

    elsewhere = kind.__name__ == "OpenEnvServer"
    assert plain or elsewhere or kind.repeatable is True
