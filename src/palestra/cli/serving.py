"""The commands that serve until Ctrl-C: a local inference server, or this machine's sandbox."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from palestra.cli.console import notice, say
from palestra.cli.loop import serve_until_stopped
from palestra.errors import ConfigError, KnownCause
from palestra.fleet import LOOPBACK, http_transport, listen_at, serving
from palestra.responses_api_models.local_model import fetch_weights
from palestra.responses_api_models.local_servers import (
    Serving,
    find_vllm,
    serve_llama_cpp,
    serve_vllm,
)
from palestra.sandbox import TOKEN_VARIABLE, Sandbox, SandboxSettings, sandbox_service
from palestra.settings import FetchArgs, LlamaCppServer, SandboxArgs, VLLMServer


def serve_model_vllm(server: VLLMServer) -> int:
    """Serve with vLLM until stopped. Raises the errors of `serve_vllm`."""
    server = server.model_copy(update={"api_key": key_from(server.api_key_env)})

    async def main() -> None:
        http = http_transport({})
        try:
            starting = serve_vllm(
                server,
                http,
                report=notice,
                vllm=find_vllm(server.python),
                ready_timeout_s=server.ready_timeout_s,
                log_path=server.log_path,
            )
            await _serve(starting, key_variable=server.api_key_env)
        finally:
            await http.aclose()

    return serve_until_stopped(main())


def serve_model_llama_cpp(server: LlamaCppServer) -> int:
    """Serve with llama.cpp until stopped. Raises the errors of `serve_llama_cpp`."""
    server = server.model_copy(update={"api_key": key_from(server.api_key_env)})

    async def main() -> None:
        starting = serve_llama_cpp(server, report=notice, ready_timeout_s=server.ready_timeout_s)
        await _serve(starting, key_variable=server.api_key_env)

    return serve_until_stopped(main())


async def _serve(starting: AbstractAsyncContextManager[Serving], *, key_variable: str) -> None:
    async with starting as serving:
        notice(f"{serving.what}: ready after {serving.started_s:.0f} s; stop it with Ctrl-C")
        for line in pointing_lines(serving, key_variable):
            say(line)
        await serving.until_ended()


def pointing_lines(serving: Serving, key_variable: str) -> list[str]:
    """Return how to use the server: settings for a configuration, and flags for `palestra eval`.

    The key is given by the name of its variable, in quotes so that the shell does not expand it.
    """
    key = f"'+policy_api_key=${{oc.env:{key_variable}}}'" if key_variable else ""
    return [
        f"+policy_base_url={serving.base_url}",
        f"+policy_model_name={serving.model}",
        key or "+policy_api_key=EMPTY",
        f"or: --model vllm:{serving.model}@{serving.base_url} {key}".rstrip(),
    ]


def key_from(variable: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the API key from the environment variable `variable`; empty when `variable` is empty.

    The key is never a command-line argument: every user of the machine can read those. Raises
    ConfigError: the variable is not set, or is empty.
    """
    if not variable:
        return ""
    if not (key := env.get(variable, "")):
        raise ConfigError(
            f"--api-key-env {variable}: there is no such environment variable, or it is empty",
            hint=f"export {variable}=… first",
        )
    return key


def fetch_model(args: FetchArgs) -> int:
    """Download the weights of a model, and print their path."""
    if args.name != "local":
        raise ConfigError(f"there is no model {args.name!r} to fetch", hint="known: local")
    say(str(fetch_weights(say)))
    return 0


def serve_sandbox(args: SandboxArgs) -> int:
    """Serve this machine's sandbox until stopped.

    Raises ConfigError: the backend is unknown, a needed token is missing, or the port is in use.
    """
    host, backend = args.host, args.backend
    token = args.token or os.environ.get(TOKEN_VARIABLE, "")
    if backend not in {"bubblewrap", "process"}:
        raise ConfigError(f"unknown sandbox back end {backend!r}", hint="bubblewrap or process")
    if not token and (host not in LOOPBACK or backend == "process"):
        # Without isolation whoever reaches it is this user, and on loopback every program does.
        what = "run programs without isolation" if backend == "process" else f"listen on {host}"
        raise ConfigError(
            f"the sandbox would {what} without a token to protect it",
            hint=f"set {TOKEN_VARIABLE} to a long random text, here and for the programs that "
            "use the sandbox",
            cause=KnownCause.NO_TOKEN,
        )
    settings = SandboxSettings.model_validate({"backend": backend, "at_once": args.at_once})
    return serve_until_stopped(_serve_sandbox(host, args.port, token, settings))


async def _serve_sandbox(host: str, port: int, token: str, settings: SandboxSettings) -> None:
    async with Sandbox(settings) as own_sandbox:
        sock = listen_at(host, port)
        async with (
            sandbox_service(own_sandbox, token=token) as service,
            serving(service.app(), sock),
        ):
            at = f"{host}:{sock.getsockname()[1]}"
            notice(f"sandbox ({settings.backend}) ready at {at}; stop it with Ctrl-C")
            await asyncio.get_running_loop().create_future()
