"""Running one of the cluster's commands within a deadline: the seam that tests replace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from palestra.cluster.executors.executor import ClusterUnreachable
from palestra.errors import ConfigError
from palestra.system import run


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str = ""
    err: str = ""


class Commands(Protocol):
    """Runs a command to its end."""

    def __call__(self, argv: Sequence[str], timeout_s: float, /) -> Answer:
        """Raises ClusterUnreachable when it does not end in time, ConfigError when it is not there."""


def run_command(argv: Sequence[str], timeout_s: float, /) -> Answer:
    """For real, with our environment."""
    try:
        done = run(argv, timeout_s=timeout_s)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no {argv[0]} here",
            hint="run this where the cluster's commands are, or choose executor none",
        ) from error
    except TimeoutError as error:
        raise ClusterUnreachable(
            f"{argv[0]} gave no answer within {timeout_s:g} s",
            hint="nothing is known of the jobs; ask again, or raise command_timeout_s",
        ) from error
    except OSError as error:
        raise ClusterUnreachable(f"{argv[0]} cannot be run: {error.strerror}") from error
    return Answer(
        done.code, *(text.decode("utf-8", "replace") for text in (done.output, done.errors))
    )
