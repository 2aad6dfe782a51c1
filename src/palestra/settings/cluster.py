"""Settings of the commands that submit jobs to a cluster.

The names are those of the flags, with underscores; in Python they are keyword arguments. Every
option is used or rejected, never ignored.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from palestra.config import Flag, did_you_mean, flag
from palestra.errors import ConfigError
from palestra.settings.base import JsonArgs, Settings, args_from
from palestra.settings.seeds import chunks_of, seeds_of

_SERVER_SETTING: Final = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\.(?P<key>[a-z_-]+)=(?P<value>.*)", re.DOTALL
)
_TIME: Final = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}")


def slurm_time(value: Any) -> Any:
    """Check a time in Slurm's format. Raises ValueError: the format is wrong, or YAML has read the
    time as a number.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - pydantic takes a ValueError for a problem
            "write a time in quotes, '4:00:00': YAML reads it as a number otherwise"
        )
    if isinstance(value, str) and not _TIME.fullmatch(value):
        raise ValueError("a time is MINUTES, M:S, H:M:S, D-H, D-H:M or D-H:M:S")
    return value


def one_line(value: str) -> str:
    """Check that a text fits in one line of a job script. Raises ValueError: it is empty or has
    line breaks or other unprintable characters.
    """
    if not value or not value.isprintable():
        raise ValueError("must be text of one line")
    return value


def _listed(value: Any) -> Any:
    """Return a single text as a tuple of one; other values unchanged."""
    return (value,) if isinstance(value, str) else value


def config_list(value: Any) -> Any:
    """Return config files, given as a list or as one text with commas, as a tuple or list. NeMo Gym
    accepts both forms too.
    """
    if isinstance(value, str):
        return tuple(part.strip() for part in value.strip("[]").split(",") if part.strip())
    return value


def _text(value: Any) -> Any:
    """Return a key as text even if it has only digits. Otherwise an error about its type would show
    the key.
    """
    return value if value is None else str(value)


def _server_settings(value: Any) -> Any:
    """Return `{"judge": {"type": "vllm"}}` as `judge.type=vllm`; other values unchanged."""
    if not isinstance(value, Mapping):
        return _listed(value)
    return tuple(
        f"{name}.{key}={setting}"
        for name, settings in value.items()
        for key, setting in (settings.items() if isinstance(settings, Mapping) else ())
    )


Time = Annotated[str, BeforeValidator(slurm_time)]
Line = Annotated[str, AfterValidator(one_line)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Key = Annotated[str | None, BeforeValidator(_text)]
Numbers = str | int | tuple[int, ...] | None


def _numbers(numbers: Numbers) -> str | tuple[int, ...] | None:
    return str(numbers) if isinstance(numbers, int) else numbers


class JobOptions(Settings):
    """The options of all submissions."""

    model_config = ConfigDict(extra="forbid")

    cluster: str | dict[str, Any] | None = Field(
        default=None, description="Name or file of a cluster config; default: this machine."
    )
    config_dir: str | None = Field(
        default=None, description="Where cluster configs are looked for."
    )
    partition: Line | None = Field(default=None, description="The partition of Slurm.")
    account: Line | None = Field(default=None, description="The account of Slurm.")
    qos: Line | None = Field(default=None, description="The quality of service of Slurm.")
    time: Time | None = Field(default=None, description="Time limit of a job, as Slurm writes it.")
    time_min: Time | None = Field(
        default=None, description="The shortest time limit that is enough."
    )
    exclusive: Annotated[bool | None, flag("--exclusive/--no-exclusive")] = Field(
        default=None, description="Whether jobs get whole nodes."
    )
    sbatch: Texts = Field(
        default=(), description="KEY=VALUE, or KEY alone, for sbatch; repeatable."
    )
    mounts: Texts = Field(
        default=(), description="Further mounts, besides those of the cluster: src:dst[:ro],…"
    )
    check_mounted_paths: bool = Field(
        default=False, description="Check that every path that is read exists and is under a mount."
    )
    expname: str = Field(default="rollouts", description="The run's name.")
    log_dir: str | None = Field(
        default=None, description="The folder for logs; default OUTPUT_DIR/logs."
    )
    run_after: Texts = Field(
        default=(), description="A run, or a job's id, that must succeed first; repeatable."
    )
    allow_missing_dep: bool = Field(
        default=False, description="Start when the run of --run-after is not known."
    )
    dry_run: bool = Field(default=False, description="Write everything, submit nothing.")
    package: Literal["git", "dir", "installed", "none"] | None = Field(
        default=None, description="How the code of this folder gets into the jobs."
    )
    installation_command: str = Field(
        default="", description="A line of bash that runs once per node, before the main step."
    )
    preprocess_cmd: str = Field(
        default="", description="A line of bash that runs before the main step."
    )
    postprocess_cmd: str = Field(
        default="", description="A line of bash that runs after the main step succeeded."
    )

    @property
    def key_variable(self) -> str | None:
        """The environment variable with the model's API key for the jobs; None without one."""
        return None

    @property
    def sbatch_settings(self) -> dict[str, str]:
        """The `sbatch` options `KEY=VALUE` and `KEY` as a mapping, without leading dashes."""
        pairs = (text.lstrip("-").partition("=") for text in self.sbatch)
        return {key: value for key, _, value in pairs}


class ModelServer(Settings):
    """A model server that each job starts."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """A path inside a mount, or the name on a hub."""
    model_name: str = ""
    """The model's name in requests; empty: `model`."""
    type: str
    gpus: int = Field(default=0, ge=0)
    """GPUs of each of its nodes."""
    cpu: bool = False
    nodes: int = Field(default=1, ge=1)
    args: str = ""
    entrypoint: str | None = None
    container: Line | None = None
    trust_remote_code: bool = False

    @property
    def requested_name(self) -> str:
        """The model's name in requests."""
        return self.model_name or self.model


class RolloutOptions(JobOptions):
    """The options of a submission of rollouts, which are the flags of the command;
    docs/topics/cluster.md explains them.
    """

    config_paths: Annotated[
        tuple[str, ...], BeforeValidator(config_list), flag("--config-paths", "-c")
    ] = Field(min_length=1, description="Config files, with commas or repeated.")
    input_file: Line = Field(description="Tasks, one JSON row a line: a file or a quoted glob.")
    output_dir: Line = Field(description="A folder for all files of the run.")
    agent_name: str | None = Field(default=None, description="Agent for rows without agent_ref.")
    num_random_seeds: int | None = Field(default=None, description="Number of seeds.")
    starting_seed: int | None = Field(default=None, description="The first seed; default 0.")
    random_seeds: Numbers = Field(
        default=None, description="Instead: a list of seeds 0,2,5, or a range 3..9."
    )
    num_repeats: int = Field(default=1, ge=1, description="Rollouts per task and seed.")
    limit: int | None = Field(default=None, ge=1, description="First n tasks of each job.")
    num_samples_in_parallel: int | None = Field(
        default=None, ge=1, description="Rollouts in flight in each job."
    )
    num_chunks: int | None = Field(
        default=None, description="Number of parts of the tasks. Each part and seed is a job."
    )
    chunk_ids: Numbers = Field(default=None, description="Only these parts, from 0: 0,2 or 3..9.")
    model: str | None = Field(
        default=None, description="The model: a path inside a mount, or a name on the hub."
    )
    policy_model_name: str | None = Field(
        default=None, description="The model's name in requests; default --model."
    )
    server_type: str | None = Field(
        default=None,
        description="Start a model server in each job: vllm, sglang, llama_cpp or generic.",
    )
    server_gpus: int = Field(default=0, ge=0, description="GPUs on each node of the model server.")
    server_cpu: bool = Field(default=False, description="The model server needs no GPU.")
    server_nodes: int = Field(default=1, ge=1, description="Nodes of the model server.")
    server_args: str = Field(
        default="", description="Further arguments of the model server, quoted."
    )
    server_entrypoint: str | None = Field(
        default=None,
        description="Command of the model server, instead of the type's; may contain {host} and {port}.",
    )
    server_container: Line | None = Field(
        default=None, description="Image of the model server, instead of the type's."
    )
    server: Annotated[tuple[str, ...], BeforeValidator(_server_settings)] = Field(
        default=(),
        description="Another model server in each job, such as a judge: NAME.KEY=VALUE, repeatable.",
    )
    server_address: str | None = Field(
        default=None, description="A model server that runs already: http://host:port/v1."
    )
    policy_api_key_env: str | None = Field(
        default=None, description="Environment variable with the key of the model server."
    )
    policy_api_key: Key = Field(
        default=None,
        repr=False,
        description="A placeholder such as dummy; a real key only by its variable.",
    )
    gym_path: str | None = Field(
        default=None,
        description="Install this checkout, once per node. In containers, paths that are not here are looked for below it.",
    )
    gym_container: Line | None = Field(default=None, description="Image with Palestra.")
    with_sandbox: bool = Field(
        default=False, description="A sandbox in each job, for model-written code."
    )
    keep_mounts_for_sandbox: bool = Field(
        default=False, description="The sandbox sees the mounts; default none."
    )
    ray_nodes: int = Field(
        default=0, ge=0, description="Nodes of a Ray cluster in each job, for heavy verifiers."
    )
    dependent_jobs: int = Field(
        default=0,
        ge=0,
        description="Further jobs after each job, which go on after its time limit.",
    )
    merge_partition: Line | None = Field(
        default=None,
        description="Partition for preparing, merging and profiling; default the driver's.",
    )
    merge_time: Time | None = Field(
        default=None,
        description="Time limit of preparing, merging and profiling; default --time, at most an hour.",
    )
    array_cap: int | None = Field(default=None, ge=1, description="Most jobs at once.")
    rerun_done: bool = Field(default=False, description="Collect again what is done.")
    serve_override: Texts = Field(
        default=(), description="A Hydra override of the servers; repeatable."
    )
    collect_override: Texts = Field(
        default=(), description="A Hydra override of the collection; repeatable."
    )
    trust_remote_code: bool = Field(
        default=False, description="The model server may run code that comes with the model."
    )

    @property
    def self_hosted(self) -> bool:
        """Whether each job starts a model server of its own."""
        return self.server_gpus > 0 or self.server_cpu

    @property
    def seeds(self) -> tuple[int, ...] | None:
        """The requested seeds; None when none are requested."""
        return seeds_of(self.num_random_seeds, self.starting_seed, _numbers(self.random_seeds))

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The chunks to run; None when the tasks are not split into chunks."""
        return chunks_of(self.num_chunks, _numbers(self.chunk_ids))

    @property
    def policy_name(self) -> str:
        """The model's name in requests."""
        return self.policy_model_name or self.model or ""

    @property
    def policy_server(self) -> ModelServer:
        """The server of the policy. Only for a self-hosted policy."""
        return ModelServer(
            model=str(self.model),
            model_name=self.policy_name,
            type=self.server_type or "",
            gpus=self.server_gpus,
            cpu=self.server_cpu,
            nodes=self.server_nodes,
            args=self.server_args,
            entrypoint=self.server_entrypoint,
            container=self.server_container,
            trust_remote_code=self.trust_remote_code,
        )

    @property
    def further_servers(self) -> dict[str, ModelServer]:
        """The servers of `--server` by name. Raises ConfigError: a setting is unknown or missing."""
        settings: dict[str, dict[str, str]] = {}
        for text in self.server:
            match = _SERVER_SETTING.fullmatch(text)
            if match is None:
                raise ConfigError(
                    f"--server {text}: it must be NAME.KEY=VALUE",
                    hint="for example --server judge.type=vllm --server judge.model=/models/judge "
                    "--server judge.gpus=2",
                )
            settings.setdefault(match["name"], {})[match["key"].replace("-", "_")] = match["value"]
        return {name: _further_server(name, values) for name, values in settings.items()}

    @property
    def key_variable(self) -> str | None:
        """The environment variable named by `--policy-api-key-env`."""
        return self.policy_api_key_env


def _further_server(name: str, values: Mapping[str, str]) -> ModelServer:
    known_keys = ", ".join(ModelServer.model_fields)
    if name == "policy":
        raise ConfigError(
            "--server policy: the policy's server is --server-type, --server-gpus and their like"
        )
    hint = f"the keys of a server: {known_keys}"
    for key in values.keys() - ModelServer.model_fields.keys():
        near = did_you_mean(key, ModelServer.model_fields)
        raise ConfigError(f"--server {name}: a server has no key {key!r}{near}", hint=hint)
    try:
        return args_from(ModelServer, values, hint=hint)
    except ConfigError as error:
        raise ConfigError(f"--server {name}: {error.message}", hint=error.hint) from None


class CommandOptions(JobOptions):
    """The options of `run_cmd`, which are the flags of the command."""

    command: str = Field(min_length=1, description="A line of bash.")
    output_dir: Line | None = Field(
        default=None, description="A folder for plan, logs and ledger; default ./EXPNAME."
    )
    container: Line | None = Field(
        default=None, description="A name in the cluster's containers, or an image; default gym."
    )
    expname: str = Field(default="command", description="The job's name.")
    num_gpus: int = Field(default=0, ge=0, description="GPUs on each node.")
    num_nodes: int = Field(default=1, ge=1, description="Nodes; the command runs on each.")


class FollowArgs(JsonArgs):
    """The arguments of `cluster cancel`."""

    run: Annotated[str, Flag(metavar="RUN", argument=True)] = Field(
        description="The run's output folder, or its name."
    )


class RetryFailedArgs(FollowArgs):
    """The arguments of `cluster retry-failed`."""

    time: Time | None = Field(
        default=None,
        description="Another time limit for the jobs of the shards, as Slurm writes it; "
        "default: the same.",
    )


class RunStatusArgs(FollowArgs):
    """The arguments of `cluster status`."""

    watch: Annotated[bool, flag("--watch", "-w")] = Field(
        default=False, description="Print it again whenever it changes, until the run has ended."
    )
    every: float = Field(default=10.0, ge=1.0, description="With --watch: seconds between looks.")


class LogsArgs(FollowArgs):
    """The arguments of `cluster logs`."""

    follow: Annotated[bool, flag("--follow", "-f")] = Field(
        default=False,
        description="Go on printing what is written, until the shard, the job or the run has ended.",
    )

    unit: Annotated[str | None, flag("--of")] = Field(
        default=None, description="A shard's or a job's name; default: what failed."
    )
    lines: Annotated[int, flag("--lines", "-n")] = Field(
        default=20, ge=1, description="Lines from the end of each file."
    )


class MergeRunsArgs(Settings):
    """The arguments of `cluster merge-runs`."""

    runs: Annotated[tuple[str, ...], Flag(metavar="RUN", argument=True)] = Field(
        min_length=2, description="Output folders, or names, of runs of one plan."
    )
    output_dir: Annotated[Path, flag("--output-dir", "-o")] = Field(
        description="A new folder for the merged run."
    )


class MergeShardsArgs(Settings):
    """The arguments of `cluster merge-shards`."""

    plan: Annotated[Path, Flag(argument=True)] = Field(
        description="The output folder of a run, or the plan.json of a submission."
    )
    allow_partial: bool = Field(
        default=False, description="Merge what is there of shards not done."
    )
