"""Cluster config files: the settings that are the same for every run on one cluster.

`examples/example.yaml` in this package shows every setting with a comment.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from palestra.cluster.places import parse_mounts
from palestra.cluster.plan import ExitAction, OnExit
from palestra.cluster.secrets import env_problems, variable_problem
from palestra.config import ConfigTree, did_you_mean, located, parse_yaml, raise_problems
from palestra.errors import ConfigError, Problem
from palestra.settings import InvalidSettings, Line, Time, args_from
from palestra.system import shown

VARIABLE: Final = "PALESTRA_CLUSTER_CONFIGS"
HERE: Final = "cluster_configs"
SHIPPED: Final = Path(__file__).parent / "examples"
SERVICES: Final = ("server", "sandbox")
SIGNAL_MOST_S: Final = 65535
"""The earliest warning that Slurm can send: this many seconds before a job's time limit."""
_RESTART: Final = re.compile(r"restart\((\d+)\)")


def exit_policy(text: Any) -> Any:
    """Parse an exit policy: `fatal`, `ignore` or `restart(3)`. Raises ValueError for any other
    text.
    """
    if isinstance(text, OnExit):
        return text
    if matched := _RESTART.fullmatch(str(text)):
        return OnExit(ExitAction.RESTART, int(matched[1]))
    if text in (ExitAction.FATAL, ExitAction.IGNORE):
        return OnExit(ExitAction(text))
    raise ValueError("should be fatal, ignore or restart(N)")


def _parts(values: ConfigTree) -> ConfigTree:
    known_parts = ("server", "sandbox", "driver", "ray", "merge")
    for name in values:
        if name not in known_parts:
            raise ValueError(f"there is no part {name!r}; the parts are {', '.join(known_parts)}")
    return values


Policy = Annotated[OnExit, BeforeValidator(exit_policy)]


class ProbeSettings(BaseModel):
    """How a job waits until its services are ready. All values are in seconds and above 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_s: PositiveFloat = 1800.0
    attempt_timeout_s: PositiveFloat = 10.0
    interval_s: PositiveFloat = 5.0

    @model_validator(mode="after")
    def _looks_twice(self) -> "ProbeSettings":
        """Check that the deadline is not before the second attempt, when the user sets both values.

        A long interval alone is fine, since the first attempt is made at once.
        """
        both = {"deadline_s", "interval_s"} <= self.model_fields_set
        if both and self.deadline_s < self.interval_s:
            raise ValueError(
                f"deadline_s {self.deadline_s:g} is shorter than interval_s {self.interval_s:g}: "
                "the service would be checked only once"
            )
        return self


class SshSettings(BaseModel):
    """How to reach the login node of a cluster. What is not set, OpenSSH's own configuration says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Line
    user: Line | None = None
    port: Annotated[PositiveInt, Field(le=65535)] | None = None
    identity: Line | None = None
    options: tuple[Line, ...] = ()
    palestra: Line = "palestra"


class ClusterConfig(BaseModel):
    """The settings of one cluster. `examples/example.yaml` explains every field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    executor: Literal["slurm", "local", "none"] = "none"
    ssh: SshSettings | None = None
    job_dir: Line | None = None
    runtime: Literal["pyxis", "apptainer", "singularity", "podman", "enroot", "none"] = "none"
    containers: dict[str, Line] = Field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    account: Line | None = None
    partition: Line | None = None
    partitions: Annotated[dict[str, Line], AfterValidator(_parts)] = Field(default_factory=dict)
    qos: Line | None = None
    time: Time | None = None
    time_min: Time | None = None
    merge_time: Time | None = None
    exclusive: bool | None = None
    sbatch: dict[str, Line] = Field(default_factory=dict)
    srun_options: tuple[Line, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    inherit_env: tuple[str, ...] = ()
    python: Line | None = None
    gym_python: Line | None = None
    cpus: Annotated[dict[str, PositiveInt], AfterValidator(_parts)] = Field(default_factory=dict)
    mem_mib: Annotated[dict[str, PositiveInt], AfterValidator(_parts)] = Field(default_factory=dict)
    gpu_directive: Literal["gres", "gpus-per-node"] = "gres"
    port_range: tuple[PositiveInt, PositiveInt] | None = None
    max_array_size: PositiveInt | None = None
    array_cap: PositiveInt | None = None
    signal_s: Annotated[PositiveInt, Field(le=SIGNAL_MOST_S)] = 120
    requeue: bool = True
    probe: ProbeSettings = ProbeSettings()
    on_exit: dict[Literal["server", "sandbox", "ray"], Policy] = Field(default_factory=dict)
    command_timeout_s: PositiveFloat = 60.0

    @model_validator(mode="after")
    def _holds_together(self) -> "ClusterConfig":
        problems = env_problems(self.env, "env")
        if (self.ssh is None) != (self.job_dir is None):
            problems.append("ssh and job_dir: set both, or neither")
        if self.job_dir is not None and not self.job_dir.startswith("/"):
            problems.append(f"job_dir {self.job_dir}: an absolute path on the cluster")
        variable_problems = (variable_problem(name, "inherit_env") for name in self.inherit_env)
        problems += dict.fromkeys(filter(None, variable_problems))
        first, last = self.port_range or (1024, 1024)
        if not 1024 <= first <= last <= 65535:
            problems.append("port_range: two ports from 1024 to 65535, the lower one first")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def container(self, kind: str, wanted_by: str) -> str | None:
        """Return the container image for `kind`; None when the cluster uses no containers.

        Raises ConfigError: the cluster has no container `kind` (the message lists the known names).
        """
        if self.runtime == "none":
            return None
        if kind not in self.containers:
            known_names = ", ".join(sorted(self.containers)) or "none"
            raise ConfigError(
                f"the cluster has no container {kind!r}, which {wanted_by} needs (containers: "
                f"{known_names}){did_you_mean(kind, self.containers)}"
            )
        return self.containers[kind]


def find_cluster(
    cluster: str | ConfigTree | None,
    config_dir: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[str, ClusterConfig]:
    """Return the name and settings of a cluster, given by name, by file path, or as a mapping.

    A name is searched in `config_dir`, the folders of PALESTRA_CLUSTER_CONFIGS, `./cluster_configs`
    and this package. Raises ConfigError: not found (lists the folders searched and the names
    found).
    """
    if cluster is None:
        if config_dir:
            raise ConfigError("--config-dir is the folder to look for --cluster in: pass both")
        return "none", ClusterConfig()
    if isinstance(cluster, Mapping):
        return str(cluster.get("name") or "given"), _checked(
            {key: value for key, value in cluster.items() if key != "name"}
        )
    path = _file_of(cluster, _folders(config_dir, environ or os.environ, cwd or Path.cwd()))
    return path.stem, _checked(_read_tree(path), path)


def _folders(config_dir: str | None, environ: Mapping[str, str], cwd: Path) -> list[Path]:
    named_folders = [Path(part) for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    if config_dir and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir {config_dir} is not a folder")
    return [*([Path(config_dir)] if config_dir else []), *named_folders, cwd / HERE, SHIPPED]


def _file_of(name: str, folders: list[Path]) -> Path:
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return Path(name)
    for folder in folders:
        for suffix in (".yaml", ".yml"):
            if (path := folder / f"{name}{suffix}").is_file():
                return path
    known_names = sorted({path.stem for folder in folders for path in folder.glob("*.y*ml")})
    looked = ", ".join(str(folder) for folder in folders)
    raise ConfigError(
        f"there is no cluster {name!r} (found: {', '.join(known_names)}){did_you_mean(name, known_names)}",
        hint=f"a cluster is NAME.yaml in one of {looked}",
    )


def _read_tree(path: Path) -> ConfigTree:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cluster config {path} cannot be read: {error}") from error
    return parse_yaml(text, where=f"cluster config {shown(path)}")[0]


def _checked(tree: ConfigTree, path: Path | None = None) -> ClusterConfig:
    """Return the settings of a cluster. `path`: the file that has them. Raises ConfigError: a setting
    is wrong.
    """
    unknown = [str(key) for key in tree if key not in ClusterConfig.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], ClusterConfig.model_fields)
        text = f"{', '.join(unknown)} is not a setting of a cluster{near}"
        hint = f"settings: {', '.join(ClusterConfig.model_fields)}"
        raise_problems([_located(Problem(text, key=unknown[0], hint=hint), path)])
    try:
        config = args_from(ClusterConfig, tree, hint="every setting is explained in example.yaml")
    except InvalidSettings as error:
        problems = [_located(Problem(p.text(), key=p.name), path) for p in error.settings]
        raise ConfigError(
            "; ".join(problem.message for problem in problems),
            hint=error.hint,
            problems=tuple(problems),
        ) from None
    try:
        parse_mounts(config.mounts)
    except ConfigError as error:
        problem = _located(Problem(error.message, key="mounts", hint=error.hint), path)
        raise ConfigError(problem.message, hint=error.hint, problems=(problem,)) from None
    return config


def _located(problem: Problem, path: Path | None) -> Problem:
    """Return the problem with the file and the line of its key."""
    if path is None:
        return replace(problem, message=f"the cluster given: {problem.message}")
    return located(problem, path, problem.key.split(".") if problem.key else ())
