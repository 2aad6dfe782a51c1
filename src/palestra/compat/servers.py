"""Base classes of the servers that authors write against nemo_gym: settings, a client, a FastAPI
app.

The classes have only nemo_gym's names, because an author may use any other name.
`palestra.compat.hosting` runs such a server in a Palestra fleet.
"""

import os
import sys
from abc import abstractmethod
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import uuid4

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, SkipValidation

from palestra.compat.client import ServerClient
from palestra.compat.nemo_gym.config_types import BaseRunServerInstanceConfig
from palestra.server import SESSION_ID_KEY, SessionCookie
from palestra.transport import SESSION_SCOPE_KEY

if TYPE_CHECKING:
    from palestra.server import Server


class BaseServer(BaseModel):
    """The base of every server: it holds the settings."""

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    config: BaseRunServerInstanceConfig


class SimpleServer(BaseServer):
    """A server that handles requests with the FastAPI app from `setup_webserver`."""

    __server_type__: ClassVar[str] = ""

    server_client: SkipValidation[ServerClient]

    @abstractmethod
    def setup_webserver(self) -> FastAPI:
        """Return the server's app. Override this method to add routes."""

    def get_session_middleware_key(self) -> str:
        """Return the name of the session cookie."""
        return f"{type(self).__name__}___{self.config.name}"

    def setup_session_middleware(self, app: FastAPI) -> None:
        """Give every request a `request.session[SESSION_ID_KEY]`, stored in a signed cookie."""
        app.add_middleware(SessionLayer, key=self.get_session_middleware_key())

    def setup_exception_middleware(self, app: FastAPI) -> None:
        """Do nothing: the fleet already reports the cause of every failure."""

    @classmethod
    def load_config_from_global_config(cls) -> Any:
        """Return the settings of the instance that this process serves."""
        from palestra.compat.hosting import settings_from_environment

        return settings_from_environment(cls)

    @classmethod
    def run_webserver(cls) -> FastAPI | None:
        """Serve the instance named in this process's environment variables until the process is
        stopped.

        A Palestra fleet does not call this method: it serves the class itself.
        """
        from palestra.compat.hosting import run_from_environment

        run_from_environment(cls)
        return None

    @classmethod
    def __palestra_server__(cls) -> "type[Server]":
        """Return the Palestra server class that serves objects of this class."""
        from palestra.compat.hosting import hosted

        return hosted(cls)

    @classmethod
    def load_from_global_config(cls) -> Self:
        """Return the server instance that this process serves."""
        config = cls.load_config_from_global_config()
        return cls(config=config, server_client=ServerClient.load_from_global_config())


class SessionLayer:
    """Middleware that makes sessions for an app outside of a fleet. In a fleet, `Boundary` makes
    them.
    """

    def __init__(self, app: Any, key: str) -> None:
        self._app = app
        self._cookie = SessionCookie(key.replace(" ", "_"), key)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or "session" in scope:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        session_fields = self._cookie.read(headers.get(b"cookie", b"").decode("latin-1")) or {}
        if SESSION_SCOPE_KEY in scope:
            session_fields = {SESSION_ID_KEY: scope[SESSION_SCOPE_KEY]}
        session = scope["session"] = {SESSION_ID_KEY: str(uuid4()), **session_fields}

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                cookie = self._cookie.write(session).encode("latin-1")
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie)]
            await send(message)

        await self._app(scope, receive, answer)


def is_nemo_gym_fastapi_worker() -> bool:
    """Whether uvicorn imports an app.py to get its `app`. Always false in a Palestra fleet."""
    return False


def is_nemo_gym_fastapi_entrypoint(file_path: str) -> bool:
    """Whether uvicorn imports `file_path` to get its `app`. Always false in a Palestra fleet."""
    return os.environ.get("NEMO_GYM_FASTAPI_ENTRYPOINT") == file_path and "uvicorn" in sys.modules
