"""The head server: it returns the resolved configuration and the list of instances.

It also returns the fleet's nonce, so that a command can check that it found its own fleet. Secrets
are masked in every response, because no client needs them. Requests must carry the fleet's token if
the fleet has one.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse

from palestra.config import ConfigTree, Redactor, ResolvedConfig, dump_yaml
from palestra.errors import (
    CallError,
    CallEvidence,
    ConfigError,
    InfraError,
    KnownCause,
    PalestraError,
    ServerDied,
    mask_error,
    to_body,
)
from palestra.fleet.attach import (
    BLOCKED_PATH,
    CODE_PATH,
    ORIGINS_PATH,
    ConfigOrigins,
    LoadedCode,
)
from palestra.fleet.fleet import Fleet
from palestra.fleet.instance import RunningInstance
from palestra.fleet.runfile import (
    EndedFleet,
    RunFile,
    read_run_file,
    remove_run_file,
    write_ended_fleet,
    write_run_file,
)
from palestra.fleet.sockets import (
    LOOPBACK,
    HeadAddress,
    ListenRemedies,
    holder_of,
    listen_at,
    serving,
)
from palestra.schema import JsonDict, complete_document, encode_json
from palestra.server import Boundary, OwnErrors, RefusalEnvelopes, describe, error_text
from palestra.transport import ASGIApp, BlockedServer, new_id

HEAD = "head server"


def head_app(
    config: ResolvedConfig,
    run: RunFile,
    instances: Callable[[], Sequence[RunningInstance]],
    *,
    token: str = "",
    added_settings: Callable[[], Mapping[str, str]] = dict,
    blocked: Callable[[], Sequence[BlockedServer]] = tuple,
    code: Callable[[], Mapping[str, LoadedCode]] = dict,
    origins: ConfigOrigins | None = None,
) -> ASGIApp:
    """Return the ASGI app of one fleet's head server. `added_settings`: returns the settings that
    the fleet added to the configuration. `blocked`: returns the servers whose event loops do not
    run. `code`: returns the author's code that each server runs; it is called in a thread.
    `origins`: where the settings came from.
    """
    app = FastAPI(title="Palestra head server")
    mask = Redactor(config.secrets)
    known_origins = (origins or ConfigOrigins()).masked(mask)

    @app.get("/")
    async def status() -> dict[str, str]:
        return {"status": "ok", "nonce": run.nonce}

    @app.get("/global_config_dict_yaml", response_model=str)
    async def global_config_dict_yaml() -> JSONResponse:
        return JSONResponse(dump_yaml(replace(config, tree={**config.tree, **added_settings()})))

    @app.get("/server_instances", response_model=list[JsonDict])
    async def server_instances() -> JSONResponse:
        return JSONResponse([instance.as_json() for instance in instances()])

    @app.get(BLOCKED_PATH, response_model=list[JsonDict])
    async def blocked_servers() -> HttpResponse:
        return HttpResponse(
            encode_json([_masked(server, mask).as_json() for server in blocked()]),
            media_type="application/json",
        )

    @app.get(CODE_PATH, response_model=dict[str, JsonDict])
    async def own_code() -> JSONResponse:
        loaded = await asyncio.to_thread(code)
        return JSONResponse({name: server.as_json() for name, server in loaded.items()})

    @app.get(ORIGINS_PATH, response_model=JsonDict)
    async def config_origins() -> JSONResponse:
        return JSONResponse(known_origins)

    describe(app, lambda document: complete_document(document, {401, 500}))

    return Boundary(
        app,
        server=HEAD,
        refusals=RefusalEnvelopes(app, server=HEAD, own_failure=_own_failure, mask=mask),
        on_error=partial(_raised, OwnErrors()),
        token=token,
    )


def _masked(blocked: BlockedServer, mask: Redactor) -> BlockedServer:
    for failure in blocked.failures:
        mask_error(failure, mask)
    return replace(blocked, message=mask(blocked.message))


def _own_failure(_path: str, message: str, evidence: CallEvidence) -> CallError:
    return InfraError(message, evidence=evidence)


def _raised(errors: OwnErrors, path: str, error: BaseException) -> CallError:
    if isinstance(error, CallError):
        return error
    errors.log(HEAD, path, error)
    return InfraError(f"the {HEAD}'s {path} raised {type(error).__name__}: {error}")


@contextlib.asynccontextmanager
async def head_server(fleet: Fleet) -> AsyncIterator[RunFile]:
    """Serve the fleet's head while the body runs, and announce it with a run file.

    Raises ConfigError, naming the process that holds the port, when the head's port is taken.
    """
    address = _address(fleet.config.tree)
    sock = _listen(address)
    run = RunFile(
        host=address.host,
        port=sock.getsockname()[1],
        nonce=new_id(),
        pid=os.getpid(),
        started=time.time(),
        folder=str(Path.cwd()),
    )
    # The lines of now: the files may change while the fleet runs.
    origins = await asyncio.to_thread(ConfigOrigins.of, fleet.config)
    app = head_app(
        fleet.config,
        run,
        lambda: list(fleet.instances.values()),
        token=address.token,
        added_settings=fleet.added_settings,
        blocked=fleet.client.blocked_servers,
        code=partial(_loaded_code, fleet),
        origins=origins,
    )
    # Before the first answer: whoever finds the head must also find the file that names it.
    write_run_file(run)
    try:
        async with serving(app, sock):
            failed: Exception | None = None
            try:
                yield run
            except Exception as error:
                failed = error
                raise
            finally:
                # While the head still answers: whoever misses it then finds this.
                _leave_word(fleet, run, failed)
    finally:
        remove_run_file(run)


def _loaded_code(fleet: Fleet) -> dict[str, LoadedCode]:
    """Return the author's code that the servers run, of those that have such code."""
    on_disk = fleet.codes_on_disk()
    return {
        name: LoadedCode(code.digests, tuple(map(str, on_disk[name].changed_since(code))))
        for name, code in fleet.codes.items()
        if code.digests
    }


def _leave_word(fleet: Fleet, run: RunFile, error: Exception | None) -> None:
    """Write why the fleet ends into a file for attached commands: a server died, the fleet's
    command failed with `error`, or the fleet was stopped.
    """
    failure, ending = fleet.failure, fleet.ending
    where = f"the fleet at {run.url} (process {run.pid})"
    if failure is not None:
        guilty = failure.failure if isinstance(failure, ServerDied) else None
        body = None if guilty is None else to_body(guilty)
        fleet_end = EndedFleet(run.nonce, failure.message, failure.hint, failure=body)
    elif error is not None:
        hint = error.hint if isinstance(error, PalestraError) else ""
        what = error.message if isinstance(error, PalestraError) else error_text(error)
        fleet_end = EndedFleet(
            run.nonce,
            f"{where} ended: {what}",
            hint or "see the last lines that `palestra run` printed",
            servers_lived=True,
        )
    else:
        fleet_end = EndedFleet(
            run.nonce,
            f"{where} was stopped",
            "start the fleet again, then this command",
            servers_lived=True,
        )
    if ending is not None:
        fleet_end = replace(
            fleet_end,
            server=ending.name,
            server_pid=ending.pid,
            returncode=ending.returncode,
            last_lines=ending.last_lines,
        )
    # The fleet's own error must not be lost to a disk that is full.
    with contextlib.suppress(OSError):
        write_ended_fleet(run, fleet_end)


def check_head_port(tree: ConfigTree) -> None:
    """Raise ConfigError now, before any server is started, when the head's port is taken."""
    _listen(_address(tree)).close()


def _address(tree: ConfigTree) -> HeadAddress:
    address = HeadAddress.from_tree(tree)
    if address.host not in LOOPBACK and not address.token:
        raise ConfigError(
            f"the head server would listen on {address.host} without a token to protect the fleet",
            hint="set ++fleet_token=<a long random text>, the same for every command",
            cause=KnownCause.NO_TOKEN,
        )
    return address


def _listen(address: HeadAddress) -> socket.socket:
    return listen_at(address.host, address.port, remedies=_REMEDIES, owner="the head server")


def _holder(port: int) -> str:
    other_run = read_run_file(port)
    if other_run is not None and other_run.alive():
        minutes = (time.time() - other_run.started) / 60
        return f"another fleet (process {other_run.pid}, started {minutes:.0f} min ago)"
    return holder_of(port)


_REMEDIES: Final = ListenRemedies(
    port="stop that process, or choose another port with ++head_server.port=<port> (0 picks a free "
    "one), the same for every command of this fleet",
    host="choose an address of this machine with ++head_server.host=<host>",
    holder=_holder,
)
