"""Diagnoses a run: the signatures, the request models and the masking that it needs."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.analysis import advice_about
from palestra.api.doors import doors_of_agents
from palestra.causes import SignatureTable
from palestra.config import (
    MASK,
    Redactor,
    ResolvedConfig,
    ServerType,
    config_from_tree,
    did_you_mean_path,
    find_secrets,
    secrets_in,
)
from palestra.datasets import RowEndpoint, missing_file
from palestra.doctor import Diagnosis
from palestra.doctor import diagnose as diagnose_run
from palestra.errors import InputDataError, PalestraError
from palestra.fleet import code_digests
from palestra.rollouts import Manifest, servers_in
from palestra.schema import JsonDict
from palestra.settings import existing_paths, load


def diagnose(
    run: str, *, inputs: Sequence[Path] = (), logs: Sequence[Path] = (), folder: Path | None = None
) -> Diagnosis:
    """Return what went wrong with a run, without secrets, and what to do in the words of the program
    that collected it.

    `run`: an output or its stem, a folder, a log, or a Slurm job. `inputs`: its input files or globs
    of them, if the run does not record them. `logs`: additional logs. `folder`: where relative paths
    start, by default the working directory. Raises InputDataError: a file cannot be read.
    """
    input_files = [file for path in inputs for file in existing_paths(path)]
    for path in logs:
        if not path.is_file():
            raise InputDataError(f"{path} does not exist{did_you_mean_path(path)}")
    for path in input_files:
        if not path.is_file():
            raise missing_file(path)
    diagnosis = diagnose_run(
        run,
        folder=folder or Path.cwd(),
        table=SignatureTable.load(),
        sources=tuple(input_files),
        logs=tuple(logs),
        doors_of=request_models,
        code_changes=code_changes,
    )
    completed = diagnosis.with_advice(lambda outputs: advice_about(list(map(Path, outputs)) or run))
    return completed.masked(secret_mask())


_KEYS: Final = re.compile(
    r"\b(?:(?:sk|hf|ghp|glpat|nvapi)[-_]|Bearer )[\w.~+/-]{12,}", re.IGNORECASE
)
"""Matches API keys of well-known providers. Logs may contain keys that are not in this user's
settings."""


def secret_mask() -> Callable[[str], str]:
    """Return a function that masks this user's secrets, and any text that looks like a key or a
    password.
    """
    redact = Redactor(_own_secrets())
    return lambda text: _PASSWORDS.sub(rf"\1{MASK}@", _KEYS.sub(MASK, redact(text)))


def _own_secrets() -> frozenset[str]:
    """Return the secrets of env.yaml and of the environment variables."""
    try:
        tree: Any = load([], ng=False, require_all=False).tree
    except PalestraError:
        tree = _roughly(Path("env.yaml"))
    long = {name: value for name, value in os.environ.items() if len(value) >= SHORTEST_SECRET}
    return secrets_in(tree, os.environ) | find_secrets(long)


def _roughly(path: Path) -> dict[str, str]:
    """Return the lines of a config that cannot be parsed: the text before the first colon -> the
    text after it.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parted = (line.partition(":") for line in lines)
    return {name.strip(" -'\""): value.strip(" '\"") for name, _, value in parted}


_PASSWORDS: Final = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
SHORTEST_SECRET: Final = 8
"""Shorter values of environment variables are not masked: they also occur in ordinary words."""


def request_models(manifest: Manifest) -> Mapping[str, Sequence[RowEndpoint]]:
    """Return the endpoints of a run's servers, with their request models, for each agent.

    Empty when the servers' code is not installed, or does not fit the run's settings.
    """
    try:
        config = _config_of(manifest)
        agents = [i.name for i in config.instances_of(ServerType.AGENT)]
        return doors_of_agents(config, agents, report=lambda _: None)
    except PalestraError:
        # Other code than the run's, or none: the rows cannot be compared then.
        return {}


def code_changes(manifest: Manifest) -> Sequence[str]:
    """Return the files of a run's servers that have changed since the run began, as far as they are
    found from here. Another folder, or another `sys.path`, may hide a file: one that is not found
    has not changed.
    """
    try:
        codes = code_digests(_config_of(manifest))
    except (PalestraError, OSError):
        return ()
    recorded = manifest.semantics.get("code") or {}
    return [
        f"{server} ({name})"
        for server, digests in recorded.items()
        for name, digest in digests.items()
        if codes.get(server, {}).get(name, digest) != digest
    ]


def _config_of(manifest: Manifest) -> ResolvedConfig:
    """Return the servers of a run as far as its manifest has them: without addresses and secrets.
    Raises ConfigError: they do not fit this version.
    """
    tree: JsonDict = {
        name: {
            server["type"]: {
                server["implementation"]: {"entrypoint": "app.py", **server["settings"]}
            }
        }
        for name, server in servers_in(manifest.semantics).items()
    }
    return config_from_tree(tree)
