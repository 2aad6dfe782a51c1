"""What a page of typed commands is made of."""

from dataclasses import dataclass, field

from palestra.testing import EndpointError


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a document, and which of its printed lines tell that it worked."""

    title: str
    text: str
    shows: tuple[str, ...]
    """Regular expressions, each found in one printed line at least."""
    when_stopped: bool = False
    """Typed once the session's servers have stopped; shows their words too."""


@dataclass(frozen=True, slots=True)
class Session:
    """Commands typed one after the other in a folder that is empty at first."""

    commands: tuple[Command, ...]
    servers: str = ""
    """What runs in another terminal meanwhile, until Ctrl-C."""
    answers: tuple[str | EndpointError, ...] = field(default=("\\boxed{4}",) * 5)
    """Of the model's endpoint, one a request."""


def alone(*commands: Command) -> tuple[Session, ...]:
    """A session for each."""
    return tuple(Session((command,)) for command in commands)
