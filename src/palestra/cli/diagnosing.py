"""`diagnose`: read the files of a run, and explain what went wrong."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.cli.console import say, say_json
from palestra.cli.doors import doors_of_agents
from palestra.cli.escaping import visible
from palestra.config import (
    MASK,
    Redactor,
    ServerType,
    config_from_tree,
    find_secrets,
    secrets_in,
)
from palestra.datasets import RowEndpoint
from palestra.doctor import Diagnosis, RowCounts, SignatureTable, five_parts, has_errors
from palestra.doctor import diagnose as diagnose_run
from palestra.errors import InputDataError, PalestraError
from palestra.rollouts import Manifest
from palestra.schema import JsonDict
from palestra.settings import DiagnoseArgs, load


def diagnose(args: DiagnoseArgs) -> int:
    """Print the diagnosis of a run; exit 1 when something is wrong."""
    for path in (*args.logs, *args.inputs):
        if not path.is_file():
            raise InputDataError(f"{path} does not exist")
    diagnosis = diagnose_run(
        args.run,
        folder=Path.cwd(),
        table=SignatureTable.load(),
        sources=args.inputs,
        logs=args.logs,
        doors_of=request_models,
    ).masked(_mask())
    if args.as_json:
        say_json(diagnosis.as_json())
    else:
        show(diagnosis)
    # Of a run that is whole, what its log says beside it was overcome.
    unexplained = bool(diagnosis.unknown) and not diagnosis.findings and not diagnosis.whole
    return 1 if has_errors(diagnosis.findings) or unexplained else 0


def show(diagnosis: Diagnosis) -> None:
    """Print a diagnosis as text for people."""
    for output, counts in diagnosis.counts.items():
        say(f"{output}: {_counted(counts)}")
        if counts.what_helps:
            say(visible(f"what helps: {counts.what_helps}"))
    for finding in diagnosis.findings:
        say(five_parts(finding, visible=visible))
    if diagnosis.consequences:
        say("follows from that:")
        for sentence in diagnosis.consequences:
            say(f"  {sentence}")
    if diagnosis.unknown:
        say("not known: it looks like an error, and fits no entry of the table")
        for quote in diagnosis.unknown:
            say(f"  seen  {quote.where}: {quote.text}")
    elif not diagnosis.findings:
        say("nothing wrong was found")
    noise = f"; passed over {diagnosis.noise} lines of shutdown noise" if diagnosis.noise else ""
    say(f"looked at: {', '.join(diagnosis.looked_at) or 'nothing'}{noise}")


_KEYS: Final = re.compile(
    r"\b(?:(?:sk|hf|ghp|glpat|nvapi)[-_]|Bearer )[\w.~+/-]{12,}", re.IGNORECASE
)
"""Matches API keys of well-known providers. Logs may contain keys that are not in this user's
settings."""


def _mask() -> Callable[[str], str]:
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


def _counted(counts: RowCounts) -> str:
    requested = counts.inputs if counts.requested is None else counts.requested
    count_texts = [
        f"requested {requested}" if requested else "requested: not known (there is no manifest)",
        f"scored {counts.scored}" + (f" ({counts.truncated} truncated)" * (counts.truncated > 0)),
        f"failed {counts.failed} (in {counts.failed_attempts} attempts)",
    ]
    count_texts += [f"missing {counts.missing}"] * (counts.missing > 0)
    count_texts += [f"profile rows {counts.profile_rows}"] * (counts.profile_rows > 0)
    return ", ".join(count_texts)


def request_models(manifest: Manifest) -> Mapping[str, Sequence[RowEndpoint]]:
    """Return the endpoints of a run's servers, with their request models, for each agent.

    Empty when the servers' code is not installed, or does not fit the run's settings.
    """
    servers = manifest.semantics.get("servers")
    if not isinstance(servers, Mapping):
        return {}
    tree: JsonDict = {
        name: {
            server["type"]: {
                server["implementation"]: {"entrypoint": "app.py", **server["settings"]}
            }
        }
        for name, server in servers.items()
    }
    try:
        config = config_from_tree(tree)
        agents = [i.name for i in config.instances_of(ServerType.AGENT)]
        return doors_of_agents(config, agents, report=lambda _: None)
    except PalestraError:
        # Other code than the run's, or none: the rows cannot be compared then.
        return {}
