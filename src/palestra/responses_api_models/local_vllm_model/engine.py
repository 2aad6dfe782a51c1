"""What vLLM is started with, and what it needs of the machine."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers import VLLMInstallation
from palestra.settings import VLLMServer

ACCELERATORS: Final = ("/dev/nvidia[0-9]*", "/dev/kfd")
"""The devices of NVIDIA's and AMD's accelerators, as patterns."""

_OWN: Final = frozenset({"model", "served_model_name", "host", "port", "api_key"})
"""Options of vLLM that this server sets itself."""


def engine_settings(
    model: str, options: Mapping[str, Any], *, api_key: str, python: str | None
) -> VLLMServer:
    """Return the settings of a vLLM server that serves `model` under its full name.

    `options`: options of vLLM's command line, with underscores. Without a `tool_call_parser`, a
    model in a folder gets the parser that its chat template shows, and any other model none. Raises
    ConfigError: an option is one that this server sets itself.
    """
    if refused := sorted(_OWN & options.keys()):
        raise ConfigError(
            f"vllm_serve_kwargs cannot have {', '.join(refused)}: this server sets it",
            hint="the model is the setting `model`; the address and the key are chosen at the start",
        )
    as_settings = {
        "tool_call_parser",
        "reasoning_parser",
        "chat_template",
        "enable_auto_tool_choice",
    }
    parser = options.get("tool_call_parser") or ("auto" if Path(model).is_dir() else "none")
    return VLLMServer(
        model=model,
        name=model,
        tool_parser=str(parser),
        reasoning_parser=str(options.get("reasoning_parser") or ""),
        chat_template=str(options.get("chat_template") or ""),
        api_key=api_key,
        python=python,
        arguments=tuple(_flags({k: v for k, v in options.items() if k not in as_settings})),
    )


def _flags(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command line: `--tensor-parallel-size 2`, `--enforce-eager`, `--no-x`."""
    for name, value in options.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
            continue
        yield f"--{flag}"
        if isinstance(value, list | tuple):
            yield from map(str, value)
        else:
            yield json.dumps(value) if isinstance(value, Mapping) else str(value)


def require_machine(
    server: str, find: Callable[[], VLLMInstallation], accelerators: tuple[str, ...] = ACCELERATORS
) -> VLLMInstallation:
    """Return the installed vLLM.

    Raises ConfigError, which names all that this machine lacks: vLLM, or the accelerator that the
    installed vLLM needs.
    """
    has_accelerator = any(next(Path("/").glob(p.lstrip("/")), None) for p in accelerators)
    gpu = f"a GPU (there is neither {' nor '.join(accelerators)})"
    try:
        installed = find()
    except ConfigError as error:
        lacks = f"vLLM ({error.message})" + ("" if has_accelerator else f" and {gpu}")
    else:
        if installed.cpu or has_accelerator:
            return installed
        lacks = f"{gpu}, which vLLM {installed.version} needs"
    raise ConfigError(
        f"{server}: vLLM cannot be started: this machine lacks {lacks}",
        hint="install vLLM in an environment of its own and set `python` to its Python (its build for "
        "CPUs needs no GPU), or use vllm_model with the base_url of an endpoint elsewhere",
    )


def variables_of(
    variables: Mapping[str, Any], *, hf_home: str | None, hf_token: str | None
) -> dict[str, str]:
    """Return the environment variables to add for vLLM. `variables` overrides the others."""
    added: dict[str, str] = {}
    if hf_home:
        added["HF_HOME"] = str(Path(hf_home).expanduser())
    if hf_token:
        added["HF_TOKEN"] = hf_token
    return {**added, **{name: str(value) for name, value in variables.items()}}
