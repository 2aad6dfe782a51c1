"""Build a server object from an instance's configuration, alone or started in this process."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from palestra.config import ConfigTree, InstanceConfig, Redactor, secrets_in, settings_from
from palestra.errors import ConfigError, PalestraError, ServerDied
from palestra.fleet.isolation.verify_calls import WorkerVerifyCalls
from palestra.fleet.loading import load_server_class
from palestra.fleet.ray_clusters.place import RAY_ADDRESS
from palestra.observability import recorder_for
from palestra.schema import JsonDict
from palestra.server import (
    EnvironmentServer,
    ModelServer,
    ResourcesServer,
    Server,
    authors_line,
    making,
    own_frames,
)
from palestra.transport import (
    CONNECTOR_LIMIT,
    ASGIApp,
    HttpClient,
    HttpTransport,
    ServerClient,
    Target,
)

if TYPE_CHECKING:
    from palestra.fleet.server_profiles.attributed import ProfiledServer
    from palestra.fleet.server_profiles.profiler import Profiler
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from palestra.config import ResolvedConfig
from palestra.fleet.importing import start_timeout_of, starting_within

GLOBAL_LIMIT = "global_aiohttp_connector_limit"
GLOBAL_LIMIT_PER_HOST = "global_aiohttp_connector_limit_per_host"
GLOBAL_DEBUG = "global_aiohttp_client_request_debug"
PROFILING = "profiling_enabled"
PROFILE_WITHIN_S: Final = 10.0
"""How long, in seconds, a process may take to write the profile of its servers when it stops."""


def http_transport(tree: Any) -> HttpTransport:
    """Return the HTTP client of one process, with the connection limits of the configuration
    `tree`.
    """
    return HttpClient(
        limit=int(tree.get(GLOBAL_LIMIT) or CONNECTOR_LIMIT),
        # A run needs as many connections to its endpoint as rollouts in flight: per-host
        # limits below that turn one burst into waves, so the default is the overall limit.
        limit_per_host=int(tree.get(GLOBAL_LIMIT_PER_HOST) or 0),
    )


def server_client(
    targets: dict[str, Target], tree: Any, *, token: str = "", http: HttpTransport | None = None
) -> ServerClient:
    """Return the client through which the servers of one process call each other."""
    return ServerClient(
        targets,
        http or http_transport(tree),
        debug=bool(tree.get(GLOBAL_DEBUG, False)),
        token=token,
        tree=tree,
        mask=Redactor(secrets_in(tree, os.environ)),
    )


def profiler_for(tree: ConfigTree, *, shared: bool) -> "Profiler | None":
    """Return the profiler that times the functions of this process's servers, or None if the
    configuration does not enable profiling.

    `shared`: several servers live in this process. Raises ConfigError when profiling is not
    possible.
    """
    if not tree.get(PROFILING):
        return None
    from palestra.fleet.server_profiles.profiler import profiler_of

    return profiler_of(tree, shared=shared)


def build_server(
    instance: InstanceConfig,
    client: ServerClient,
    *,
    served: type[Server] | None = None,
    isolate: bool = True,
) -> Server:
    """Return the server object of `instance`, not started yet. Its class is `served`, or else the
    entrypoint's class.

    `isolate`: whether an author's synchronous methods run in worker processes, which
    `start_workers` starts. With profiling enabled these methods stay in this process, because the
    profiler cannot time a worker's functions.

    Raises ConfigError when the entrypoint or the settings are wrong.
    """
    cls = served or _class_of(instance)
    settings = _settings_of(cls, instance, _facts(instance, client))
    with making(cls):
        server = cls(config=settings, server_client=client)
    _record_calls(server, client)
    if isolate and served is None:
        _isolate(server, instance, client)
    return server


def check_settings(instance: InstanceConfig) -> None:
    """Check the settings of an instance with its server class. No server is made.

    Raises ConfigError: the settings are wrong, or the class cannot be loaded.
    """
    _settings_of(_class_of(instance), instance, _own_facts(instance))


def _class_of(instance: InstanceConfig) -> type[Server]:
    if instance.folder is None:
        raise ConfigError(f"{instance.name} is a remote server, so it cannot be started here")
    class_name = str(instance.settings.get("class_name") or "")
    return load_server_class(instance.folder / instance.entrypoint, class_name)


def _settings_of(cls: type[Server], instance: InstanceConfig, facts: JsonDict) -> Any:
    settings_model: Any = cls.model_fields["config"].annotation
    return settings_from(settings_model, instance, extra=facts)


@contextlib.contextmanager
def starting(name: str) -> Iterator[None]:
    """Wrap the code that builds or starts the server `name`. An exception of the author's code
    becomes ServerDied.
    """
    try:
        yield
    except PalestraError:
        raise
    except (Exception, SystemExit) as error:
        message = f"{name} could not start: {type(error).__name__}: {error}"
        if line := authors_line(error):
            raise ServerDied(
                f"{message}, at {line}", hint="correct that line of the server's code"
            ) from error
        raise ServerDied(f"{message}\n{own_frames(error)}") from error


async def start_server(
    server: Server, *, local: "Server | ProfiledServer | None" = None
) -> ASGIApp:
    """Start a server and its workers, and return its app. The app is built now, so that its errors
    appear before any row runs.

    `local`: the wrapper around the server, such as a `ProfiledServer`, if it has one.
    """
    local = local or server
    await local.start()
    await server.start_workers()
    return local.asgi_app()


async def stop_server(server: Server, timeout_s: float) -> None:
    """Stop a server. An author's `stop` that fails or hangs does not keep the others from stopping: a
    failure is logged.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await server.shut_down()
    except TimeoutError:
        pass
    except Exception as error:
        server.palestra_errors.log(server.name, ".stop", error)


def _record_calls(server: Server, client: ServerClient) -> None:
    """Make a model server record its calls when the configuration enables capture."""
    if isinstance(server, ModelServer):
        recorder = recorder_for(client.tree, server.name)
        if recorder is not None:
            server.record_calls(recorder)


def _isolate(server: Server, instance: InstanceConfig, client: ServerClient) -> None:
    path = server.environment_path() if isinstance(server, EnvironmentServer) else None
    if isinstance(server, EnvironmentServer) and path is not None and server.verifies_apart():
        server.verify_with(WorkerVerifyCalls(path, server))
    elif (
        isinstance(server, ResourcesServer)
        and server.wants_isolation()
        and not client.tree.get(PROFILING)
    ):
        from palestra.fleet.isolation.session_workers import workers_of

        server.isolate(workers_of(server, instance, client))


def _facts(instance: InstanceConfig, client: ServerClient) -> JsonDict:
    """Return the facts about an instance (name, host, port, …) that a settings class may have
    fields for.
    """
    target = client.targets.get(instance.name)
    port = target.urls[0].rpartition(":")[2] if target is not None and target.urls else ""
    facts = _own_facts(instance)
    if port.isdigit():
        facts["port"] = int(port)
    if (address := client.tree.get(RAY_ADDRESS)) is not None:
        facts[RAY_ADDRESS] = address
    return facts


def _own_facts(instance: InstanceConfig) -> JsonDict:
    """Return the facts about an instance that its configuration has."""
    facts = {
        "name": instance.name,
        "host": instance.host,
        "port": instance.port,
        "entrypoint": instance.entrypoint,
        "num_workers": instance.num_workers,
        "domain": instance.domain,
        "description": instance.description,
        "verified": instance.verified,
        "value": instance.value,
        "datasets": list(instance.datasets),
    }
    return {name: value for name, value in facts.items() if value not in (None, [])}


@dataclass(frozen=True, slots=True)
class Assembly:
    """Started servers by name, and the client that calls them."""

    servers: Mapping[str, Server]
    client: ServerClient


@contextlib.asynccontextmanager
async def assembled(
    config: ResolvedConfig,
    names: Collection[str],
    stand_ins: Mapping[str, Server] | None = None,
) -> AsyncIterator[Assembly]:
    """Start the instances `names`. A server in `stand_ins` replaces the instance of the same name.

    Raises ConfigError for an instance whose settings are wrong, and ServerDied for an instance that
    does not start.
    """
    targets: dict[str, Target] = {}
    client = server_client(targets, config.tree)
    servers: dict[str, Server] = {}
    try:
        for name, stand_in in (stand_ins or {}).items():
            stand_in.server_client = client
            _record_calls(stand_in, client)
            servers[name] = stand_in
            targets[name] = Target(name, _type_of(config, name), local=stand_in)
        limit_s = start_timeout_of(config.tree)
        for name in names:
            if name in servers:
                continue
            instance = config.instance(name)
            with starting_within(limit_s):
                servers[name] = build_server(instance, client)
            targets[name] = Target(name, instance.type, local=servers[name])
        for name, server in servers.items():
            with starting_within(limit_s), starting(name):
                await start_server(server)
        yield Assembly(servers, client)
    finally:
        for server in servers.values():
            with contextlib.suppress(Exception):
                await server.shut_down()
        await client.http.aclose()


def _type_of(config: ResolvedConfig, name: str) -> str:
    instance = config.instances.get(name)
    return "responses_api_models" if instance is None else instance.type
