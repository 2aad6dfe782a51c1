"""Start an inference server, wait until it answers, watch it, and always stop it at the end."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import orjson

from palestra.errors import CallError, RunFailed, ServerDied
from palestra.fleet import Child, ChildExit, http_url, reachable_host
from palestra.responses_api_models.local_servers.installed import (
    VLLMInstallation,
    find_vllm,
    free_port,
    require_own,
)
from palestra.responses_api_models.local_servers.vllm_command import (
    command,
    environment,
    tool_parser,
)
from palestra.settings import VLLMServer
from palestra.transport import HttpRequest, HttpTransport

logger = logging.getLogger("palestra.local_servers")

KEEPER: Final = Path(__file__).with_name("keeper.py")
ASK_EVERY_S: Final = 0.5
TELL_EVERY_S: Final = 10.0
ASK_TIMEOUT_S: Final = 5.0
READY_TIMEOUT_S: Final = 1800.0
"""The default seconds to wait for a vLLM server; on a busy CPU, its start has taken 15 minutes."""
STOP_S: Final = 3.0
CANCELLED_STOP_S: Final = 1.5
"""How long, in seconds, a server has to stop: at the end of its use, and when the command is
stopped, which has 2 s for all that it does."""

Tell = Callable[[str], None]
"""A function that prints one line for the user."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server that answers. `started_s`: the seconds until its first answer."""

    base_url: str
    model: str
    what: str
    """A short description of the server: product, version and start settings."""
    pid: int
    started_s: float
    ending: "asyncio.Task[ChildExit]"
    """A task that is done when the process has ended."""

    async def until_ended(self) -> None:
        """Wait until the server ends. Then raises ServerDied with the server's last lines."""
        raise (await asyncio.shield(self.ending)).as_error()


@asynccontextmanager
async def serve_vllm(
    server: VLLMServer,
    http: HttpTransport,
    *,
    report: Tell,
    vllm: VLLMInstallation | None = None,
    ready_timeout_s: float = READY_TIMEOUT_S,
    log_path: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Serving]:
    """Start a vLLM server, wait until it answers, and stop it when the `with` block ends.

    `variables`: further environment variables of vLLM.

    Raises ConfigError: the settings cannot work. ServerDied: the server ends too early. RunFailed:
    it is not ready in time, or another process answers at its port.
    """
    installed = vllm if vllm is not None else await asyncio.to_thread(find_vllm, None)
    parser = tool_parser(server)
    port = free_port(server.host, server.port)
    how = f"tool parser {parser or 'none'}, reasoning parser {server.reasoning_parser or 'none'}"
    what = f"vLLM {installed.version}{' on CPU' if installed.cpu else ''}, {how}"
    report(f"starting {what} …")
    async with kept_running(
        "vllm",
        command(server, installed, parser=parser, port=port),
        {**environment(server, installed), **variables},
        secret=server.api_key,
        log_path=log_path,
    ) as (child, ending):
        root = http_url(reachable_host(server.host), port)
        began = time.monotonic()
        headers = {"authorization": f"Bearer {server.api_key}"} if server.api_key else {}
        await _answers(http, root, headers, child, ending, report, ready_timeout_s)
        await asyncio.to_thread(require_own, port, child.pid, name=child.name)
        yield Serving(
            base_url=f"{root}/v1",
            model=server.served_name,
            what=what,
            pid=child.pid,
            started_s=time.monotonic() - began,
            ending=ending,
        )


@asynccontextmanager
async def kept_running(
    name: str,
    line: list[str],
    added: Mapping[str, str],
    *,
    secret: str = "",
    log_path: Path | None = None,
) -> AsyncIterator[tuple[Child, "asyncio.Task[ChildExit]"]]:
    """Run a process that is stopped when the `with` block or Palestra's process ends, even by a
    crash.

    `secret` is masked in the process's output.
    """
    order = orjson.dumps({"command": line, "environment": dict(added)})
    child = await Child.spawn(
        name,
        [sys.executable, "-P", str(KEEPER)],
        order=order,
        on_line=lambda who, text: logger.debug("%s | %s", who, text),
        redact=lambda text: text.replace(secret, "****") if secret else text,
        log_path=log_path,
    )
    ending = asyncio.create_task(child.ended(), name=f"end of {name}")
    grace_s = STOP_S
    try:
        yield child, ending
    except asyncio.CancelledError:
        grace_s = CANCELLED_STOP_S
        raise
    finally:
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ending
        await child.stop(grace_s=grace_s)


async def _answers(
    http: HttpTransport,
    root: str,
    headers: Mapping[str, str],
    child: Child,
    ending: "asyncio.Task[ChildExit]",
    report: Tell,
    limit_s: float,
) -> None:
    """Wait until the server lists its models.

    Raises ServerDied: the server ends first. RunFailed: it does not answer within `limit_s`
    seconds.
    """
    began = reported_at = time.monotonic()
    while True:
        if ending.done():
            raise ending.result().as_error(before_ready=True)
        if await _lists_models(http, root, headers):
            return
        now = time.monotonic()
        if now - began >= limit_s:
            lines = "".join(f"\n  | {line}" for line in child.last_lines) or " (it printed nothing)"
            raise RunFailed(
                f"{child.name} did not answer within {limit_s:.0f} s; its last lines:{lines}",
                hint="--ready-timeout waits longer",
            )
        if now - reported_at >= TELL_EVERY_S:
            reported_at = now
            last = child.last_lines[-1] if child.last_lines else "it has printed nothing yet"
            report(f"… {now - began:.0f} s of at most {limit_s:.0f} s: {last[:160]}")
        await asyncio.wait({ending}, timeout=ASK_EVERY_S)


async def _lists_models(http: HttpTransport, root: str, headers: Mapping[str, str]) -> bool:
    request = HttpRequest("GET", f"{root}/v1/models", headers, timeout_s=ASK_TIMEOUT_S, direct=True)
    try:
        return (await http.send(request)).status == 200
    except CallError:
        return False


__all__ = ["READY_TIMEOUT_S", "ServerDied", "Serving", "Tell", "kept_running", "serve_vllm"]
