"""`Server`: the common base of model servers, agents and resources servers."""

import logging
from collections.abc import Callable, MutableMapping
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, PrivateAttr
from starlette.routing import BaseRoute, Route

from palestra.config import ServerType
from palestra.errors import CallError, CallEvidence, RejectedRows, RowError
from palestra.schema import JsonDict, SchemaComponents, complete_document, rejected_fields
from palestra.server.author_calls import AuthorMethod, is_by_author
from palestra.server.author_classes import app_from
from palestra.server.authors_errors import UnfitResult, error_text
from palestra.server.boundary import Boundary, SessionCookie
from palestra.server.direct import Direct
from palestra.server.endpoints import Endpoint, row_error
from palestra.server.in_flight import InFlightCalls
from palestra.server.own_errors import OwnErrors, Report
from palestra.server.published import describe
from palestra.server.refusals import RefusalEnvelopes
from palestra.server.sessions import SESSION_ID_KEY, SessionStore, ToolFault
from palestra.transport import (
    ASGIApp,
    ServerClient,
    fault_of,
    is_tool_path,
    new_id,
    worker_cookie,
)

logger = logging.getLogger("palestra.server")


class ServerConfig(BaseModel):
    """The settings that every server has; a server's own settings are fields of a subclass.

    `name` is the instance's name in the configs.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    name: str = ""


class Server(BaseModel):
    """A server: typed async methods and an ASGI app over them.

    Subclasses list their protocol methods in `routes()`. The fleet decides where the server runs
    (in this process, in its own process, on another node); the server's code is the same
    everywhere.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    config: ServerConfig
    server_client: ServerClient

    palestra_failures: ClassVar[frozenset[int]] = frozenset({401, 422, 500, 504})
    """The HTTP statuses of this server's error replies."""

    # Authors call their own attributes `_sessions` or `_token`; theirs would silently replace ours.
    _palestra_sessions: SessionStore = PrivateAttr(default_factory=SessionStore)
    _palestra_secret: str = PrivateAttr(default_factory=new_id)
    _palestra_token: str = PrivateAttr(default="")
    _palestra_worker: int | None = PrivateAttr(default=None)
    _palestra_errors: OwnErrors = PrivateAttr(default_factory=OwnErrors)

    @property
    def name(self) -> str:
        """The instance's name; the class's name when it has none."""
        return self.config.name or type(self).__name__

    @property
    def palestra_type(self) -> str:
        """The server type: model, agent or resources; empty for any other server."""
        return ""

    @property
    def palestra_is_environment(self) -> bool:
        """Whether this server is an environment, so that a model that it asks is a judge and not
        the policy.
        """
        return self.palestra_type == ServerType.RESOURCES

    @property
    def palestra_keeps_state(self) -> bool:
        """Whether a call may depend on an earlier one of its rollout. A model server or an agent
        keeps nothing that a rollout depends on.
        """
        return self.palestra_is_environment

    @cached_property
    def palestra_in_flight(self) -> InFlightCalls:
        """The requests from other processes that this server has not answered yet."""
        return InFlightCalls(self.name)

    async def start(self) -> None:
        """Prepare the server. Called once on the event loop before the first request. Raise an
        error to refuse to start.
        """

    async def stop(self) -> None:
        """Clean up. Called once after the last request."""

    async def start_workers(self) -> None:
        """Start the processes that run the author's code, if any. Called after `start`."""

    async def end_workers(self) -> None:
        """End the processes that run the author's code, even in the middle of a call."""

    async def shut_down(self) -> None:
        """Stop the server, close its sessions and end its workers. Called by the code that runs the
        server.
        """
        try:
            await self.stop()
        finally:
            self._palestra_sessions.close_all()
            self._palestra_errors.tell_rest()
            await self.end_workers()

    @property
    def palestra_sessions(self) -> SessionStore:
        """The sessions of this server in this process."""
        return self._palestra_sessions

    @property
    def palestra_errors(self) -> OwnErrors:
        """The errors that the server's own code has raised in this process."""
        return self._palestra_errors

    def palestra_report_bugs(self, report: Report) -> None:
        """Pass the errors of this server's own code to `report`, instead of the log."""
        self._palestra_errors = OwnErrors(report=report)

    def routes(self) -> list[Endpoint]:
        """Return the protocol endpoints of this kind of server."""
        return []

    def endpoint(self, method: Callable[..., Any], path: str, **kwargs: Any) -> Endpoint:
        """Make an endpoint from one of this server's methods."""
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
        """Return the AuthorMethod that reports a call of `path` to the pulse; None when only
        Palestra's code runs there.

        `method`: the endpoint's method, if known.
        """
        if not is_by_author(type(self)):
            return None
        return AuthorMethod(method or type(self), self, path)

    def translate(self, path: str, error: BaseException) -> CallError:
        """Turn an exception of this server's own code into the `CallError` for the rollout."""
        if isinstance(error, CallError):
            self._tell_inner_failure(error)
            return self.relayed(error)
        if isinstance(error, RequestValidationError):
            return _request_error(self.name, path, error)
        if isinstance(error, RejectedRows):
            message = f"{self.name}{path} rejects the rows: {error.message}"
            return RowError(
                message, hint=error.hint, evidence=CallEvidence(problems=error.problems)
            )
        if isinstance(error, UnfitResult):
            message = f"{self.name}{self.palestra_label(path)} {error}"
            failure = self.own_failure(path, message, CallEvidence(traceback=error.function))
            failure.hint = error.hint
            return failure
        frames = self._palestra_errors.log(self.name, path, error)
        message = f"{self.name}{self.palestra_label(path)} raised {error_text(error)}"
        return self.own_failure(path, message, CallEvidence(traceback=frames))

    def palestra_label(self, path: str) -> str:
        """Return how messages call what is at `path`."""
        return path

    def _tell_inner_failure(self, error: CallError) -> None:
        """Log that a call to another server failed, in NeMo Gym's wording, if request debugging is
        on.
        """
        if error.evidence.hops and self.server_client.debug:
            logger.error(
                "Hit an exception in %s calling an inner server: %s",
                self.name,
                self.server_client.mask(error.message),
            )

    def relayed(self, error: CallError) -> CallError:
        """Return the error for this server's caller when a call that this server made has failed."""
        return error

    def own_failure(self, path: str, message: str, evidence: CallEvidence) -> CallError:
        """Return the error for a bug in this kind of server, in the code for `path`."""
        return fault_of(self.palestra_type, path)(message, evidence=evidence)

    @cached_property
    def _palestra_endpoints(self) -> dict[str, Endpoint]:
        return {endpoint.path: endpoint for endpoint in self.routes()}

    def typed_endpoint(self, path: str, /) -> Endpoint | None:
        """Return the endpoint at `path` for a caller in this process; None when it needs an HTTP
        request.
        """
        endpoint = self._palestra_endpoints.get(path)
        return None if endpoint is None or endpoint.wants_request else endpoint

    def setup_webserver(self) -> FastAPI:
        """Return the app with the protocol's endpoints. Override it to add your own routes."""
        # Before FastAPI's own pages, as paths are tried in this order.
        routes: list[BaseRoute] = [
            Route(endpoint.path, endpoint.__call__, methods=["POST"])
            for endpoint in self._palestra_endpoints.values()
        ]
        app = FastAPI(title=self.name, routes=routes)
        app.add_api_route("/", self._palestra_status, methods=["GET"])
        describe(app, self._complete_document)
        return app

    async def _palestra_status(self) -> JsonDict:
        """Return that the server runs, and which requests it has sent again."""
        report = self.server_client.retries.report()
        retries = {**asdict(report), "reason": self.server_client.mask(report.reason)}
        return {"status": "ok"} | ({"retries": retries} if report.count else {})

    def _complete_document(self, document: JsonDict) -> None:
        components = SchemaComponents(document)
        for endpoint in self._palestra_endpoints.values():
            path = document["paths"].setdefault(endpoint.path, {})
            path.setdefault("post", endpoint.operation(components))
        complete_document(document, self.palestra_failures)

    def secure(self, *, secret: str = "", token: str = "", worker: int | None = None) -> None:
        """Set the fleet's cookie secret and token. Call it before the first request.

        `worker`: this process's number, when several processes serve the instance.
        """
        self._palestra_worker = worker
        self._palestra_secret = secret or self._palestra_secret
        self._palestra_token = token

    @cached_property
    def session_cookie(self) -> SessionCookie:
        """The cookie in which callers over HTTP hold their session."""
        # An instance's name may hold what a cookie's may not.
        name = quote(f"{type(self).__name__}___{self.name}", safe="")
        return SessionCookie(name, self._palestra_secret, worker=self._worker_mark())

    def palestra_note_fault(self, scope: MutableMapping[str, Any], error: BaseException) -> None:
        """Keep for the row that the tool at the path of the request `scope` raised `error`. Such a
        tool is an author's own route.
        """
        path = scope["path"]
        session_id = scope["session"].get(SESSION_ID_KEY)  # the author may have cleared it
        if self.palestra_is_environment and is_tool_path(path) and session_id:
            session = self._palestra_sessions.open(session_id)
            session.note_fault(ToolFault.of(path, error))

    @cached_property
    def _palestra_app(self) -> ASGIApp:
        app = app_from(self.setup_webserver)
        return Boundary(
            self.palestra_inner_app(app),
            server=self.name,
            refusals=RefusalEnvelopes(
                app,
                server=self.name,
                own_failure=self.own_failure,
                mask=self.server_client.mask,
                note_fault=self.palestra_note_fault,
            ),
            on_error=self.translate,
            cookie=self.session_cookie,
            token=self._palestra_token,
            in_flight=self.palestra_in_flight,
            author=self.palestra_author_method,
            environment=self.palestra_is_environment,
            keeps_state=self.palestra_keeps_state,
            note_fault=self.palestra_note_fault,
        )

    def palestra_inner_app(self, app: FastAPI) -> ASGIApp:
        """Return the app inside the boundary: `app`, with a short path to its endpoints."""
        return Direct(app, self._palestra_endpoints.values())

    def _worker_mark(self) -> tuple[str, str] | None:
        worker = self._palestra_worker
        return None if worker is None else (worker_cookie(self.name), str(worker))

    def asgi_app(self) -> ASGIApp:
        """Return the app, wrapped in the boundary that adds sessions and turns errors into
        envelopes.
        """
        return self._palestra_app


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
