"""Start a llama.cpp server with the engine of `local_model`."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from palestra.errors import ConfigError
from palestra.responses_api_models.local_model.app import default_threads
from palestra.responses_api_models.local_model.engine import EngineOrder
from palestra.responses_api_models.local_model.running import RunningEngine, require_engine
from palestra.responses_api_models.local_model.weights import find_weights
from palestra.responses_api_models.local_servers.installed import free_port, require_own
from palestra.responses_api_models.local_servers.running import Serving, Tell
from palestra.responses_api_models.local_servers.vllm_command import HERMES_TEMPLATE
from palestra.settings import LlamaCppServer


@asynccontextmanager
async def serve_llama_cpp(
    server: LlamaCppServer, *, report: Tell, ready_timeout_s: float
) -> AsyncIterator[Serving]:
    """Start a llama.cpp server, wait until it answers, and stop it when the `with` block ends.

    Raises ConfigError: the settings cannot work. ServerDied: the server does not start.
    """
    order = engine_order(server)
    if server.port:
        free_port(server.host, server.port)
    what = f"llama.cpp, {order.slots} slots of {order.context_tokens} tokens"
    report(f"starting {what} …")
    began = time.monotonic()
    engine = await RunningEngine.start("llama.cpp", order, timeout_s=ready_timeout_s)
    try:
        if server.port:
            await asyncio.to_thread(require_own, server.port, engine.pid, name="llama.cpp")
        yield Serving(
            base_url=f"{engine.url}/v1",
            model=order.model_name,
            what=what,
            pid=engine.pid,
            started_s=time.monotonic() - began,
            ending=engine.ending,
        )
    finally:
        await engine.stop()


def engine_order(server: LlamaCppServer) -> EngineOrder:
    """Return the settings for the engine's process. Raises ConfigError: the package or a file is
    missing.
    """
    require_engine()
    path = find_weights(server.model)
    template = server.chat_template or ("" if server.model else str(HERMES_TEMPLATE))
    if template and not Path(template).is_file():
        raise ConfigError(f"there is no chat template {template}")
    return EngineOrder(
        model_path=str(path),
        model_name=server.name or path.stem,
        api_key=server.api_key,
        context_tokens=server.context_tokens,
        slots=server.slots,
        threads=server.threads or default_threads(),
        connections=2 * server.slots,
        parent_pid=os.getpid(),
        chat_template_path=template,
        host=server.host,
        port=server.port,
    )


__all__ = ["engine_order", "serve_llama_cpp"]
