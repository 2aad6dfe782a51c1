"""What every submission takes, whatever its jobs run: the queue, mounts, waiting, packaging."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from palestra.cluster.configs import Line, Time
from palestra.config import flag


def _listed(value: Any) -> Any:
    """One text as a list of one; lists as they are."""
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
MOST_NAME: Final = 100


class JobOptions(BaseModel):
    """Options of any submission."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str | dict[str, Any] | None = Field(
        default=None, description="Name or file of a cluster config; default: this machine."
    )
    config_dir: str | None = Field(
        default=None, description="Where cluster configs are looked for."
    )
    partition: Line | None = Field(default=None, description="Slurm's.")
    account: Line | None = Field(default=None, description="Slurm's.")
    qos: Line | None = Field(default=None, description="Slurm's.")
    time: Time | None = Field(default=None, description="Time limit of a job, as Slurm writes it.")
    time_min: Time | None = Field(default=None, description="A shorter one that would do.")
    exclusive: Annotated[bool | None, flag("--exclusive/--no-exclusive")] = Field(
        default=None, description="Whole nodes."
    )
    sbatch: Texts = Field(
        default=(), description="KEY=VALUE, or KEY alone, for sbatch; repeatable."
    )
    mounts: Texts = Field(default=(), description="src:dst[:ro],… besides the cluster's.")
    check_mounted_paths: bool = Field(
        default=False, description="Every path that is read is under a mount, and exists."
    )
    expname: str = Field(default="rollouts", description="The run's name.")
    log_dir: str | None = Field(default=None, description="Default OUTPUT_DIR/logs.")
    run_after: Texts = Field(
        default=(), description="A run or a job's id that must end well first."
    )
    allow_missing_dep: bool = Field(default=False, description="Start if it is not known.")
    dry_run: bool = Field(default=False, description="Write everything, submit nothing.")
    package: Literal["git", "dir", "installed", "none"] | None = Field(
        default=None, description="The code here, for its jobs: git, dir, installed or none."
    )
    installation_command: str = Field(
        default="", description="Bash, once per node, before the main step."
    )
    preprocess_cmd: str = Field(default="", description="Bash before the main step.")
    postprocess_cmd: str = Field(default="", description="Bash after it went well.")

    @property
    def key_variable(self) -> str | None:
        """The variable that the jobs read a model's key from."""
        return None

    @property
    def sbatch_settings(self) -> dict[str, str]:
        """`KEY=VALUE` and `KEY` as a mapping, without dashes."""
        pairs = (text.lstrip("-").partition("=") for text in self.sbatch)
        return {key: value for key, _, value in pairs}


def name_problems(options: JobOptions) -> list[str]:
    """What is wrong with a run's name, and with what it waits for."""
    problems = []
    name = options.expname
    if not (name.replace("-", "").replace("_", "").replace(".", "").isalnum() and name.isascii()):
        problems.append(f"--expname {name!r}: letters, digits, '-', '_' and '.'")
    elif len(name) > MOST_NAME or name.isdecimal():
        problems.append(f"--expname: at most {MOST_NAME} characters, and no mere number")
    if options.allow_missing_dep and not options.run_after:
        problems.append("--allow-missing-dep without --run-after")
    return problems
