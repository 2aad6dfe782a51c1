"""The command lines of self-hosted model servers, by type.

A server's API key is the nonce of its job, so a server refuses requests from another job.
"""

import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from palestra.cluster.plan import KEY_VARIABLE, KEYED
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.settings import ModelServer


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The command of a model server. `worker_argv`: the command on nodes of rank 1 and above."""

    argv: tuple[str, ...]
    worker_argv: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def server_command(server: ModelServer, *, python: str) -> ServerCommand:
    """Return the command for a server. Raises ConfigError: the type is unknown."""
    kind = server.type
    if kind not in TYPES:
        raise ConfigError(
            f"--server-type {kind!r} is unknown (known: {', '.join(sorted(TYPES))})"
            f"{did_you_mean(kind, TYPES)}"
        )
    return TYPES[kind](server, shlex.split(server.args), python)


def _vllm(server: ModelServer, further: Sequence[str], python: str) -> ServerCommand:
    del python
    start = shlex.split(server.entrypoint or "vllm serve")
    argv = [*start, server.model, "--served-model-name", server.requested_name]
    argv += ["--host", "{host}", "--port", "{port}", "--seed", "{server_seed}"]
    copies = _number(further, "--data-parallel-size", "-dp")
    if server.gpus and not _has(further, "--tensor-parallel-size", "-tp"):
        argv += ["--tensor-parallel-size", str(_per_copy(server.gpus, copies))]
    if server.trust_remote_code:
        argv += ["--trust-remote-code"]
    env = {"VLLM_API_KEY": "{nonce}", "VLLM_NO_USAGE_STATS": "1"}
    if server.nodes == 1:
        return ServerCommand((*argv, *further), env=env)
    if not _has(further, "--pipeline-parallel-size", "-pp"):
        argv += ["--pipeline-parallel-size", str(server.nodes)]
    argv += ["--nnodes", str(server.nodes), "--node-rank", "{node_rank}"]
    argv += ["--master-addr", "{head_host}", "--master-port", "{head_port}", *further]
    return ServerCommand(tuple(argv), (*argv, "--headless"), env)


def _per_copy(gpus: int, copies: int) -> int:
    if gpus % copies:
        raise ConfigError(f"{gpus} GPUs cannot be shared by {copies} copies of the model")
    return gpus // copies


def _sglang(server: ModelServer, further: Sequence[str], python: str) -> ServerCommand:
    del python
    start = shlex.split(server.entrypoint or "python3 -m sglang.launch_server")
    if "-m" not in start[1:-1]:
        raise ConfigError(
            "--server-entrypoint of sglang is PYTHON -m MODULE: it takes its key as an argument, "
            "which is added inside the process",
            hint="for example /opt/venv/bin/python -m sglang.launch_server",
        )
    at = start.index("-m")
    start[at : at + 1] = ["{supervisor}", KEYED]
    argv = [*start, "--model-path", server.model, "--served-model-name", server.requested_name]
    argv += ["--host", "{host}", "--port", "{port}", "--random-seed", "{server_seed}"]
    if server.gpus and not _has(further, "--tp-size", "--tensor-parallel-size", "--tp"):
        argv += ["--tp-size", str(server.gpus * server.nodes)]
    if server.trust_remote_code:
        argv += ["--trust-remote-code"]
    if server.nodes > 1:
        argv += ["--nnodes", str(server.nodes), "--node-rank", "{node_rank}"]
        argv += ["--dist-init-addr", "{head_host}:{head_port}"]
    return ServerCommand((*argv, *further), env={KEY_VARIABLE: "{nonce}"})


def _llama_cpp(server: ModelServer, further: Sequence[str], python: str) -> ServerCommand:
    if server.trust_remote_code:
        raise ConfigError(
            "--trust-remote-code: has no effect for llama_cpp, whose models contain no code"
        )
    if server.nodes > 1:
        raise ConfigError("--server-nodes: llama_cpp runs on one node")
    default = f"{shlex.quote(python)} -m palestra serve-model llama-cpp"
    start = shlex.split(server.entrypoint or default)
    # The embedded model is known by name wherever palestra is installed.
    model = [] if server.model == "local" else [server.model]
    argv = [*start, *model, "--name", server.requested_name, "--host", "{host}", "--port", "{port}"]
    argv += ["--api-key-env", KEY_VARIABLE, *further]
    return ServerCommand(tuple(argv), env={KEY_VARIABLE: "{nonce}"})


def _generic(server: ModelServer, further: Sequence[str], python: str) -> ServerCommand:
    del python
    if not server.entrypoint:
        raise ConfigError("--server-type generic needs --server-entrypoint, with {port} in it")
    if server.trust_remote_code:
        raise ConfigError("--trust-remote-code: for a generic server, put it into --server-args")
    argv = (*shlex.split(server.entrypoint), *further)
    if not any("{port}" in word for word in argv):
        raise ConfigError(
            "--server-entrypoint of a generic server has no {port}",
            hint="for example 'my_server --host {host} --port {port}'; its key is in "
            f"${KEY_VARIABLE}",
        )
    return ServerCommand(argv, env={KEY_VARIABLE: "{nonce}"})


TYPES: Final[dict[str, Callable[[ModelServer, Sequence[str], str], ServerCommand]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama_cpp": _llama_cpp,
    "generic": _generic,
}


def _has(words: Sequence[str], *flags: str) -> bool:
    return any(word.partition("=")[0].replace("_", "-") in flags for word in words)


def _number(words: Sequence[str], *flags: str) -> int:
    """Return the number that follows one of `flags`; 1 without such a flag."""
    for word, after in itertools.pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in flags:
            text = value if equals else after
            if not text.isdecimal() or not int(text):
                raise ConfigError(f"--server-args: {name} must be a number of 1 or more")
            return int(text)
    return 1
