"""Run a server that is written against `nemo_gym` in a Palestra fleet.

The author's object keeps its own names and its own app. `Hosted` wraps the object and adds
everything that a fleet needs of a server.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import yaml
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, PrivateAttr, create_model

from palestra.compat.addresses import with_addresses
from palestra.compat.client import ServerClient
from palestra.compat.direct_routes import (
    DirectRoute,
    DirectRoutes,
    SessionFields,
    is_direct,
    let_end,
)
from palestra.compat.http import EndpointRefused, ServerRefused, close_global_client
from palestra.compat.mcp import expose, is_exposed
from palestra.compat.nemo_gym.base_responses_api_agent import with_fleet_defaults
from palestra.compat.nemo_gym.base_responses_api_model import SimpleResponsesAPIModel
from palestra.compat.nemo_gym.global_config import (
    NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME,
    NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME,
    set_global_config_dict,
)
from palestra.compat.nemo_gym.judge import JudgeError
from palestra.compat.nemo_gym.rollout_correlation import RolloutContextMiddleware
from palestra.compat.refused_answers import only_inner
from palestra.compat.results import complete_results
from palestra.compat.rollout_prefix import RolloutPrefixLayer
from palestra.compat.rows import REPLAY_MARKS, RowLayer
from palestra.compat.servers import SessionLayer, SimpleServer
from palestra.config import ServerType, config_from_tree
from palestra.errors import (
    CallError,
    CallEvidence,
    ConfigError,
    JudgeFailure,
    ModelRejectedRow,
    add_question,
)
from palestra.fleet import build_server, http_url, listen, server_client, serving
from palestra.schema import (
    JsonDict,
    SchemaComponents,
    complete_document,
    request_body,
)
from palestra.server import (
    CHECK_PATH,
    NOT_ASKED,
    AuthorMethod,
    Server,
    app_from,
    describe,
    is_by_author,
    making,
    own_frames,
    published_schema,
    refuse_unfinished,
)
from palestra.transport import ASGIApp, HttpReply, Target

_ROWS: Final = frozenset({"/run", "/seed_session", "/verify"})
"""Endpoints whose request models rows are checked against before a run."""

_MODEL_ENDPOINTS: Final = ("responses", "chat_completions", "setup_webserver")
"""The methods of which a model server overrides one at least."""

_PROTOCOL: Final = _ROWS | {"/aggregate_metrics", "/v1/responses", "/reset", "/step"}
"""Endpoints that are no tools."""

_OUR_LAYERS: Final = (RowLayer, SessionLayer, RolloutContextMiddleware, RolloutPrefixLayer)
"""Middleware of ours, of which a plain request in a fleet needs nothing."""


class Hosted(Server):
    """A Palestra server that wraps an object of `author_class`."""

    author_class: ClassVar[type[SimpleServer]]

    config: Any
    _author: SimpleServer = PrivateAttr()
    _lifespan: "Lifespan | None" = PrivateAttr(default=None)
    _made_app: FastAPI = PrivateAttr()
    _direct: DirectRoutes | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Create the author's object and its app."""
        super().model_post_init(context)
        client = self.server_client
        # Before the author's constructor, which may ask for it.
        tree = set_global_config_dict(with_addresses(client.tree, client.targets))
        self.config = with_fleet_defaults(self.config, tree)
        with making(self.author_class):
            self._author = self.author_class(
                config=self.config, server_client=ServerClient.of_fleet(client, tree)
            )
        self._made_app = app_from(self._author.setup_webserver)

    async def start(self) -> None:
        """Start the app's lifespan, in which authors start what their server needs."""
        self._lifespan = Lifespan(self._made_app)
        await self._lifespan.start()

    async def stop(self) -> None:
        """Stop the app's lifespan and close the connections that the author's code holds."""
        try:
            if self._lifespan is not None:
                await self._lifespan.stop()
        finally:
            await close_global_client()

    def setup_webserver(self) -> FastAPI:
        """Return the author's app, with `GET /` and the schemas of its request bodies added."""
        app = self._made_app
        if not any(getattr(route, "path", "") == "/" for route in app.routes):
            app.add_api_route("/", _status, methods=["GET"])
            # Before a catch-all of the author's.
            app.router.routes.insert(0, app.router.routes.pop())
        if self.palestra_type == ServerType.MODEL:
            app.add_api_route(CHECK_PATH, _not_checked, methods=["GET"])
        if self.palestra_is_environment:
            self._complete(app)
        describe(app, partial(_complete_document, app))
        complete_results(app, self.name)
        return app

    def palestra_inner_app(self, app: FastAPI) -> ASGIApp:
        """Return the author's app, with a short path to its plain routes.

        Model servers have none, because their calls may be recorded as HTTP carries them.
        """
        sessions = SessionFields()
        routes = () if self.palestra_type == ServerType.MODEL else app.routes
        self._direct = DirectRoutes(
            app,
            [
                DirectRoute(
                    route,
                    app=app,
                    whole_app=self.asgi_app,
                    sessions=sessions,
                    author=self.palestra_author_method(None, route.path),
                    is_tool=route.path not in _PROTOCOL,
                    **(self._verification if route.path == "/verify" else {}),
                )
                for route in routes
                if is_direct(route, app, _OUR_LAYERS)
            ],
            sessions,
        )
        let_end(app)
        return self._direct

    def typed_endpoint(self, path: str, /) -> Any:
        """Return the author's route at `path` for a caller in this process; None when it needs the
        app.
        """
        direct = self._routes_here
        return None if direct is None else direct.route(path)

    @property
    def _verification(self) -> JsonDict:
        """The settings of the short path to `/verify`: when it needs the app."""
        return {
            "needs_app": REPLAY_MARKS,
            "tool_faults": self.palestra_sessions.tool_faults,
        }

    @cached_property
    def _routes_here(self) -> DirectRoutes | None:
        # Not the private attribute: pydantic looks that up in several steps.
        self.asgi_app()
        return self._direct

    def _complete(self, app: FastAPI) -> None:
        """Add the fleet's features for an environment to the app: `/mcp`, if enabled, and
        `RowLayer`.
        """
        if getattr(self.config, "expose_tools_over_mcp", False) and not is_exposed(app):
            secret = self._palestra_secret
            expose(self._author, app, self.asgi_app, secret=secret, needs_token=False)
        sessions = self.palestra_sessions
        app.add_middleware(RowLayer, reported=_reported(app), sessions=sessions)

    def palestra_author_method(
        self, method: Callable[..., Any] | None, path: str
    ) -> AuthorMethod | None:
        """Return the author's method named like the last part of `path`, else the author's class.
        None when the class is not by an author.
        """
        if not is_by_author(self.author_class):
            return None
        author_function = getattr(self.author_class, path.rpartition("/")[2] or " ", None)
        return AuthorMethod(
            method or (author_function if callable(author_function) else self.author_class),
            self,
            path,
        )

    @property
    def palestra_type(self) -> str:
        """The server type that the author's class declares."""
        return self.author_class.__server_type__

    def relayed(self, error: CallError) -> CallError:
        """Return the error for this server's caller: a model that an environment asked is a judge."""
        return JudgeFailure.relayed(error) if self.palestra_is_environment else error

    def translate(self, path: str, error: BaseException) -> CallError:
        """Return the `CallError` for an exception of the author's code, including the client's
        exceptions.
        """
        inner = only_inner(error)
        if isinstance(inner, EndpointRefused):
            return self.relayed(self._refusal(inner))
        if isinstance(inner, ServerRefused) and inner.failure is not None:
            return self.relayed(inner.failure)
        if isinstance(inner, JudgeError):
            cause = only_inner(inner.__cause__)
            failure = cause.failure if isinstance(cause, ServerRefused) else cause
            judge_failure = (
                JudgeFailure.of(failure)
                if isinstance(failure, CallError)
                else JudgeFailure(f"{self.name}{path}: {inner}")
            )
            return add_question(judge_failure, inner.judge_question)
        return super().translate(path, error)

    def _refusal(self, error: EndpointRefused) -> CallError:
        """Return the error that a model server of Palestra has for the same answer of its endpoint,
        with the author's line.
        """
        from palestra.responses_api_models.chat import classify

        reply = HttpReply(error.status, error.response_content)
        refusal = classify(reply, server=self.name, url=error.url, model=error.model)
        if not isinstance(refusal, CallError):
            refusal = ModelRejectedRow(
                f"{self.name}: {error.url} answered {error.status}: {refusal.sentence}",
                evidence=CallEvidence(hops=(refusal.hop,)),
            )
        refusal.evidence = replace(refusal.evidence, traceback=own_frames(error))
        return refusal


def hosted(cls: type[SimpleServer]) -> type[Server]:
    """Return the `Hosted` subclass that wraps `cls`; both classes have the same name.

    Raises ConfigError: `cls` lacks a method that its type of server requires.
    """
    refuse_unfinished(cls, _missing_endpoints(cls))
    settings: Any = cls.model_fields["config"].annotation
    hosted_class = create_model(cls.__name__, __base__=Hosted, config=(settings, ...))
    hosted_class.author_class = cls
    return hosted_class


def _missing_endpoints(cls: type[SimpleServer]) -> tuple[str, ...]:
    """Return the endpoint that a model server requires, when it has none of its own."""
    base = SimpleResponsesAPIModel
    if not issubclass(cls, base):
        return ()
    is_overridden = (getattr(cls, name) is not getattr(base, name) for name in _MODEL_ENDPOINTS)
    return () if any(is_overridden) else ("responses",)


class Lifespan:
    """One app's lifespan, run in its own task: the same task must enter and leave it."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the lifespan. Raises the app's own startup error.

        `stop` also ends a lifespan whose start was cancelled.
        """
        ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(ready), name="lifespan")
        await ready

    async def stop(self) -> None:
        """End the lifespan. Raises the app's own shutdown error."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        try:
            async with self._app.router.lifespan_context(self._app):
                if not ready.done():  # cancelled with `start`, which nobody awaits any more
                    ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


async def _not_checked() -> dict[str, str]:
    return {"endpoint": NOT_ASKED}


async def _status() -> dict[str, str]:
    return {"status": "ok"}


def _complete_document(app: FastAPI, document: JsonDict) -> None:
    """Add to the OpenAPI document: request body schemas with their marks, and the error responses."""
    components = SchemaComponents(document)
    for route in app.routes:
        model = _body_model(route)
        # What the author keeps out of the document stays out.
        operation = document["paths"].get(getattr(route, "path", ""), {}).get("post")
        if model is not None and operation is not None:
            operation["requestBody"] = request_body(components.placed(published_schema(model)))
    complete_document(document, {401, 422, 500, 504})


def _body_model(route: Any) -> type[BaseModel] | None:
    if not isinstance(route, APIRoute) or route.path not in _ROWS or route.body_field is None:
        return None
    kind = route.body_field.field_info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _reported(app: FastAPI) -> set[str]:
    """Return the fields that the response of `/verify` declares and its request does not."""
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path == "/verify":
            body_model, response_model = _body_model(route), route.response_model
            if (
                body_model is not None
                and isinstance(response_model, type)
                and issubclass(response_model, BaseModel)
            ):
                return set(response_model.model_fields) - set(body_model.model_fields)
    return set()


def settings_from_environment(cls: type[SimpleServer]) -> Any:
    """Return the settings of the instance named in this process's environment variables."""
    tree, instance = _from_environment()
    from palestra.config import settings_from

    settings: Any = cls.model_fields["config"].annotation
    instance_config = config_from_tree(tree).instance(instance)
    extra = {"name": instance, "host": instance_config.host, "port": instance_config.port}
    return settings_from(settings, instance_config, extra=extra)


def run_from_environment(cls: type[SimpleServer]) -> None:
    """Serve `cls` as the instance named in the environment variables.

    Raises ConfigError: the variables are not set.
    """
    tree, name = _from_environment()
    asyncio.run(_serve(cls, tree, name))


async def _serve(cls: type[SimpleServer], tree: dict[str, Any], name: str) -> None:
    config = config_from_tree(tree)
    targets = {
        other_instance.name: Target(
            other_instance.name,
            other_instance.type,
            (http_url(other_instance.host, other_instance.port),),
        )
        for other_instance in config.instances.values()
        if other_instance.port is not None
    }
    instance_config = config.instance(name)
    client = server_client(targets, tree)
    server = build_server(instance_config, client, served=hosted(cls))
    await server.start()
    try:
        async with serving(
            server.asgi_app(), listen(instance_config.host, instance_config.port or 0)
        ):
            await asyncio.Event().wait()
    finally:
        with contextlib.suppress(Exception):
            await server.stop()
        await client.http.aclose()


def _from_environment() -> tuple[dict[str, Any], str]:
    text = os.environ.get(NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME)
    name = os.environ.get(NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME)
    if not text or not name:
        raise ConfigError(
            "this server is started by its fleet",
            hint='ng_run "+config_paths=[resources_servers/<name>/configs/<name>.yaml]"',
        )
    return yaml.safe_load(text), name


__all__ = ["Hosted", "hosted", "run_from_environment", "settings_from_environment"]
