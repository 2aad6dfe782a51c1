"""Which executor a name means."""

from palestra.cluster.executors.executor import Executor
from palestra.cluster.executors.here import HereExecutor
from palestra.cluster.executors.slurm import SlurmExecutor
from palestra.errors import ConfigError


def executor_for(name: str, *, timeout_s: float = 60.0) -> Executor:
    """The executor of that name; no call of it takes longer than `timeout_s`, but running does."""
    if name == "slurm":
        return SlurmExecutor(timeout_s=timeout_s)
    if name in {"local", "none"}:
        return HereExecutor()
    raise ConfigError(f"there is no executor {name!r}", hint="slurm or none (also called local)")
