"""What every submission takes, whatever its jobs run: the queue, mounts, waiting, packaging."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from palestra.cluster.configs import Line, Time


def _listed(value: Any) -> Any:
    """One text as a list of one; lists as they are."""
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
MOST_NAME: Final = 100


class JobOptions(BaseModel):
    """Options of any submission."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str | dict[str, Any] | None = None
    config_dir: str | None = None
    partition: Line | None = None
    account: Line | None = None
    qos: Line | None = None
    time: Time | None = None
    time_min: Time | None = None
    exclusive: bool | None = None
    sbatch: Texts = ()
    mounts: Texts = ()
    check_mounted_paths: bool = False
    expname: str = "rollouts"
    log_dir: str | None = None
    run_after: Texts = ()
    allow_missing_dep: bool = False
    dry_run: bool = False
    package: Literal["git", "dir", "installed", "none"] | None = None
    installation_command: str = ""
    preprocess_cmd: str = ""
    postprocess_cmd: str = ""

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
