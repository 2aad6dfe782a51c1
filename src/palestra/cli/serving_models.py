"""`serve-model`: a local inference server, started, waited for, and pointed to."""

import signal
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from palestra.cli.console import notice, say
from palestra.cli.loop import Stopped, run_to_end
from palestra.responses_api_models.local_servers import (
    LlamaCppServer,
    Serving,
    VLLMServer,
    find_vllm,
    serve_llama_cpp,
    serve_vllm,
)
from palestra.serving import http_transport


def serve_model_vllm(
    server: VLLMServer, *, python: str | None, ready_timeout_s: float, log_path: Path | None
) -> int:
    """Serve with vLLM until stopped. Raises what `serve_vllm` raises."""

    async def main() -> None:
        http = http_transport({})
        try:
            await _serve(
                serve_vllm(
                    server,
                    http,
                    tell=notice,
                    vllm=find_vllm(python),
                    ready_timeout_s=ready_timeout_s,
                    log_path=log_path,
                )
            )
        finally:
            await http.aclose()

    return _until_stopped(main)


def serve_model_llama_cpp(server: LlamaCppServer, *, ready_timeout_s: float) -> int:
    """Serve with llama.cpp until stopped. Raises what `serve_llama_cpp` raises."""

    async def main() -> None:
        await _serve(serve_llama_cpp(server, tell=notice, ready_timeout_s=ready_timeout_s))

    return _until_stopped(main)


async def _serve(starting: AbstractAsyncContextManager[Serving]) -> None:
    async with starting as serving:
        notice(f"{serving.what}: ready after {serving.started_s:.0f} s; stop it with Ctrl-C")
        for line in pointing_lines(serving):
            say(line)
        await serving.until_ended()


def pointing_lines(serving: Serving) -> list[str]:
    """How to use it: settings for a configuration, and an `eval` that needs none."""
    url = f"vllm:{serving.base_url}#{serving.model}"
    return [*(f"+{setting}" for setting in serving.settings()), f"or: --model {url}"]


def _until_stopped(main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    try:
        run_to_end(main())
    except Stopped as stopped:
        notice("stopped")
        return 0 if stopped.signal is signal.SIGINT else stopped.exit_code
    return 0
