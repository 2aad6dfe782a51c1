"""Submit a run from a laptop, and follow it: the same commands, on the cluster's login node.

The cluster's file says where that is (`ssh`, `job_dir`). Code and named files are sent there first.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

import palestra
from palestra.cli.console import notice, say_json
from palestra.cluster import (
    CLUSTER_FILE,
    CODE,
    ClusterConfig,
    How,
    KnownRun,
    LoginNode,
    SshSettings,
    check_run_name,
    find_cluster,
    inherited_variables,
    is_checkout,
    known_run,
    pack,
    remember,
    send,
    uncommitted,
    version_there,
)
from palestra.config import NamedFile
from palestra.errors import ConfigError, RunFailed
from palestra.rollouts import provenance_path
from palestra.settings import config_list
from palestra.system import matching_files

UPLOADS: Final = "uploads"
JSON_FLAG: Final = "--json"
WATCH_FLAG: Final = "--watch"
MOST_SHOWN: Final = 200
"""The most bytes of an output that a message shows."""
ASKED_HERE: Final = frozenset({"cluster", "config_dir", "package", "output_dir"})
"""The options that are given to the command on the login node with another value."""


def login_cluster(options: Mapping[str, Any]) -> ClusterConfig | None:
    """Return the cluster's settings if it is reached by ssh; None for one that is reached from here."""
    if not options.get("cluster"):
        return None
    _, cluster = find_cluster(options["cluster"], options.get("config_dir"))
    return cluster if cluster.ssh is not None else None


def submit_by_ssh(
    command: str, options: Mapping[str, Any], words: Sequence[str], cluster: ClusterConfig
) -> int:
    """Send what the command needs, and run it on the login node. Return its exit code.

    `command`: `rollouts` or `run-cmd`. Raises ConfigError: something is missing here or there.
    """
    if cluster.ssh is None or cluster.job_dir is None:
        raise ConfigError("the cluster has no ssh and job_dir")
    name = str(options.get("expname") or ("rollouts" if command == "rollouts" else "command"))
    check_run_name(name)
    variables: Mapping[str, str] = {}
    if not options.get("dry_run"):
        key = options.get("policy_api_key_env")
        variables = inherited_variables(key, cluster, os.environ)
    node = LoginNode(cluster.ssh, cluster.command_timeout_s)
    _compare_versions(node)
    how: How = options.get("package") or ("git" if is_checkout(Path.cwd()) else "none")
    if how == "git" and (changed := uncommitted(Path.cwd())):
        notice(f"--package git leaves out what is not committed: {', '.join(changed[:5])}")
    upload = pack(how, Path.cwd(), list(_named_files(options, words)), cluster)
    run_folder = PurePosixPath(cluster.job_dir) / name
    folder = run_folder / UPLOADS / upload.name
    send(upload, node, cluster.job_dir, str(folder))
    output_dir = str(run_folder / str(options.get("output_dir") or "output"))
    flags = [
        *flags_of({key: value for key, value in options.items() if key not in ASKED_HERE}),
        f"--cluster={folder / CLUSTER_FILE}",
        f"--output-dir={output_dir}",
        *(["--package=dir"] if how in {"git", "dir"} else []),
    ]
    if not options.get("dry_run"):
        remember(
            KnownRun(
                name,
                output_dir,
                cluster.executor,
                cluster.command_timeout_s,
                cluster.ssh.model_dump(mode="json"),
                str(folder / CODE),
                str(options.get("output_dir") or ""),
                tuple(variables),
            )
        )
    return node.palestra(
        ["cluster", command, *flags, *words], folder=str(folder / CODE), environment=variables
    ).code


def run_by_ssh(run_name: str, words: Sequence[str]) -> int | None:
    """Run a command about a run on its login node, and return its exit code.

    `words`: the command and its flags, without the run. Return None for a run that was submitted
    from here.
    """
    remote_run = None if Path(run_name).is_dir() else known_run(run_name)
    if remote_run is None or remote_run.login is None:
        return None
    settings = SshSettings(**remote_run.login)
    environment = {name: os.environ[name] for name in remote_run.variables if name in os.environ}
    finished = LoginNode(settings, remote_run.timeout_s).palestra(
        ["cluster", *words, remote_run.output_dir],
        folder=remote_run.folder,
        environment=environment,
        captured=JSON_FLAG in words,
        on_line=_print_document if {JSON_FLAG, WATCH_FLAG} <= {*words} else None,
    )
    if finished.output:
        say_json(_document(finished.output, settings.host))
    if finished.complaint:
        notice(finished.complaint)
    return finished.code


def _document(output: bytes, host: str) -> Any:
    try:
        return orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise RunFailed(
            f"{host}: the command printed no JSON document: {output[:MOST_SHOWN]!r}",
            hint="files of the login shell, such as ~/.bashrc, may print in interactive shells only",
        ) from error


def _print_document(line: bytes) -> None:
    """Print one of several documents. A line that is none, such as of a login shell, is a notice."""
    try:
        say_json(orjson.loads(line), on_one_line=True)
    except orjson.JSONDecodeError:
        notice(line.decode("utf-8", "replace").rstrip())


def flags_of(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options as flags, each in one word."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag.removeprefix('--')}"
        elif isinstance(value, list | tuple):
            yield from (f"{flag}={member}" for member in value)
        elif value is not None:
            yield f"{flag}={value}"


def _compare_versions(node: LoginNode) -> None:
    version = version_there(node)
    if palestra.__version__ not in version:
        notice(
            f"warning: {node.settings.host} has {version or 'another Palestra'}, and this machine "
            f"{palestra.__version__}: what the two know may differ"
        )


def _named_files(options: Mapping[str, Any], words: Sequence[str]) -> Iterator[str]:
    """Yield the files that the options and words name; some may be only on the cluster."""
    for text in options.get("config_paths", ()):
        yield from config_list(text)
    if options.get("input_file"):
        for path in matching_files(options["input_file"]):
            yield from (str(path), str(provenance_path(path)))
    for word in (*words, *options.get("config_paths", ())):
        if file := NamedFile.parse(word):
            yield file.path
