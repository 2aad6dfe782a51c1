"""`Server`: what model servers, agents and resources servers have in common."""

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, PrivateAttr
from starlette.routing import BaseRoute, Route

from palestra.config import ServerType
from palestra.errors import CallError, Evidence, RejectedRows, RowError
from palestra.schema import JsonDict, SchemaComponents, complete_document, rejected_fields
from palestra.server.author_calls import AuthorMethod, is_by_author
from palestra.server.authors_errors import error_text
from palestra.server.boundary import Boundary, SessionCookie
from palestra.server.direct import Direct
from palestra.server.endpoints import Endpoint, row_error
from palestra.server.in_flight import InFlightCalls
from palestra.server.own_errors import OwnErrors, Report
from palestra.server.published import describe
from palestra.server.refusals import RefusalEnvelopes
from palestra.server.sessions import SessionStore
from palestra.transport import ASGIApp, ServerClient, fault_of, new_id, worker_cookie

logger = logging.getLogger("palestra.server")


class ServerConfig(BaseModel):
    """Settings that every server has; a server's own settings are fields of a subclass.

    `name` is the instance's name in the configs.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    name: str = ""


class Server(BaseModel):
    """A server: typed async methods and an ASGI app over them.

    Subclasses list their protocol methods in `routes()`. Where the server lives (in this
    process, in one of its own, on another node) is the fleet's business and changes nothing
    here.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    config: ServerConfig
    server_client: ServerClient

    palestra_failures: ClassVar[frozenset[int]] = frozenset({401, 422, 500, 504})
    """The statuses that its failures are answered with."""

    # Authors call their own attributes `_sessions` or `_token`; theirs would silently replace ours.
    _palestra_sessions: SessionStore = PrivateAttr(default_factory=SessionStore)
    _palestra_secret: str = PrivateAttr(default_factory=new_id)
    _palestra_token: str = PrivateAttr(default="")
    _palestra_worker: int | None = PrivateAttr(default=None)
    _palestra_errors: OwnErrors = PrivateAttr(default_factory=OwnErrors)

    @property
    def name(self) -> str:
        """The instance's name, or the class's when it has none."""
        return self.config.name or type(self).__name__

    @property
    def palestra_type(self) -> str:
        """Which of the three kinds of servers this is; empty when it is none of them."""
        return ""

    @property
    def palestra_is_environment(self) -> bool:
        """Whether a model that this server asks is a judge, and no rollout's policy."""
        return self.palestra_type == ServerType.RESOURCES

    @cached_property
    def palestra_in_flight(self) -> InFlightCalls:
        """What other processes have asked this server, and it has not answered yet."""
        return InFlightCalls(self.name)

    async def start(self) -> None:
        """Called once on the event loop before the first request; raise to refuse to start."""

    async def stop(self) -> None:
        """Called once after the last request."""

    async def start_workers(self) -> None:
        """Start the processes that its author's code is called in, if any. After `start`."""

    async def end_workers(self) -> None:
        """End those processes, and whatever they do."""

    async def shut_down(self) -> None:
        """Stop, and release what sessions still hold. For whoever runs the server."""
        try:
            await self.stop()
        finally:
            self._palestra_sessions.close_all()
            self._palestra_errors.tell_rest()
            await self.end_workers()

    @property
    def palestra_sessions(self) -> SessionStore:
        """The sessions of this process."""
        return self._palestra_sessions

    @property
    def palestra_errors(self) -> OwnErrors:
        """What its own code has raised in this process."""
        return self._palestra_errors

    def palestra_report_bugs(self, report: Report) -> None:
        """Give what this server's own code raises to `report`, instead of the log."""
        self._palestra_errors = OwnErrors(report=report)

    def routes(self) -> list[Endpoint]:
        """The protocol endpoints of this kind of server."""
        return []

    def endpoint(self, method: Callable[..., Any], path: str, **kwargs: Any) -> Endpoint:
        """An endpoint of this server over one of its methods."""
        return Endpoint(
            method,
            path=path,
            server=self.name,
            sessions=self._palestra_sessions,
            on_error=self.translate,
            author=self.palestra_author_method(method, path),
            **kwargs,
        )

    def palestra_author_method(
        self, method: Callable[..., Any] | None, path: str
    ) -> AuthorMethod | None:
        """By what a call of `path` is told while it executes; None when only our code runs then.

        `method`: what answers there, where that is known.
        """
        if not is_by_author(type(self)):
            return None
        return AuthorMethod(method or type(self), self, path)

    def translate(self, path: str, error: BaseException) -> CallError:
        """What an exception of this server's own code means to the rollout."""
        if isinstance(error, CallError):
            self._tell_inner_failure(error)
            return self.relayed(error)
        if isinstance(error, RequestValidationError):
            return _request_error(self.name, path, error)
        if isinstance(error, RejectedRows):
            message = f"{self.name}{path} rejects the rows: {error.message}"
            return RowError(message, hint=error.hint, evidence=Evidence(problems=error.problems))
        frames = self._palestra_errors.log(self.name, path, error)
        message = f"{self.name}{path} raised {error_text(error)}"
        return self.own_failure(path, message, Evidence(traceback=frames))

    def _tell_inner_failure(self, error: CallError) -> None:
        """Say that an inner call failed, in the field's words, when requests are debugged."""
        if error.evidence.hops and self.server_client.debug:
            logger.error(
                "Hit an exception in %s calling an inner server: %s",
                self.name,
                self.server_client.mask(error.message),
            )

    def relayed(self, error: CallError) -> CallError:
        """What the failure of a call that this server made means to whoever called it."""
        return error

    def own_failure(self, path: str, message: str, evidence: Evidence) -> CallError:
        """The error for a bug in this kind of server, in the code behind `path`."""
        return fault_of(self.palestra_type, path)(message, evidence=evidence)

    @cached_property
    def _palestra_endpoints(self) -> dict[str, Endpoint]:
        return {endpoint.path: endpoint for endpoint in self.routes()}

    def typed_endpoint(self, path: str, /) -> Endpoint | None:
        """The endpoint at `path` for a caller in this process, if objects can be passed to it."""
        endpoint = self._palestra_endpoints.get(path)
        return None if endpoint is None or endpoint.wants_request else endpoint

    def setup_webserver(self) -> FastAPI:
        """The app with the protocol's endpoints; override to add routes of your own."""
        # Before FastAPI's own pages, as paths are tried in this order.
        routes: list[BaseRoute] = [
            Route(endpoint.path, endpoint.__call__, methods=["POST"])
            for endpoint in self._palestra_endpoints.values()
        ]
        app = FastAPI(title=self.name, routes=routes)
        app.add_api_route("/", _status, methods=["GET"])
        describe(app, self._complete_document)
        return app

    def _complete_document(self, document: JsonDict) -> None:
        components = SchemaComponents(document)
        for endpoint in self._palestra_endpoints.values():
            path = document["paths"].setdefault(endpoint.path, {})
            path.setdefault("post", endpoint.operation(components))
        complete_document(document, self.palestra_failures)

    def secure(self, *, secret: str = "", token: str = "", worker: int | None = None) -> None:
        """Share the fleet's cookie secret and token; call before the first request.

        `worker`: this process's number, when several serve the instance.
        """
        self._palestra_worker = worker
        self._palestra_secret = secret or self._palestra_secret
        self._palestra_token = token

    @cached_property
    def _palestra_app(self) -> ASGIApp:
        # An instance's name may hold what a cookie's may not.
        name = quote(f"{type(self).__name__}___{self.name}", safe="")
        cookie = SessionCookie(name, self._palestra_secret, worker=self._worker_mark())
        app = self.setup_webserver()
        return Boundary(
            Direct(app, self._palestra_endpoints.values()),
            server=self.name,
            refusals=RefusalEnvelopes(
                app, server=self.name, own_failure=self.own_failure, mask=self.server_client.mask
            ),
            on_error=self.translate,
            cookie=cookie,
            token=self._palestra_token,
            in_flight=self.palestra_in_flight,
            author=self.palestra_author_method,
            environment=self.palestra_is_environment,
        )

    def _worker_mark(self) -> tuple[str, str] | None:
        worker = self._palestra_worker
        return None if worker is None else (worker_cookie(self.name), str(worker))

    def asgi_app(self) -> ASGIApp:
        """The app behind the boundary that adds sessions and renders failures."""
        return self._palestra_app


async def _status() -> dict[str, str]:
    return {"status": "ok"}


def _request_error(server: str, path: str, error: RequestValidationError) -> RowError:
    inputs: JsonDict = {"body": error.body}
    for problem in error.errors():
        if problem["loc"][0] != "body":
            inputs.setdefault(problem["loc"][0], {})[problem["loc"][-1]] = problem["input"]
    fields = [
        field._replace(pointer=field.pointer.removeprefix("/body"))
        for field in rejected_fields(inputs, error)
    ]
    return row_error(server, path, fields)


__all__ = ["Server", "ServerConfig"]
