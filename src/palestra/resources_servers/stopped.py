"""Calls of our own functions that a model's text can make slow, in workers that can be killed.

try:
    found = await value_of(workers, "package.module:function", text, limit_s=1.0)
except Stopped:
    ...  # the text's fault
"""

from typing import Any

from palestra.errors import VerifierError
from palestra.sandbox import Raised, Returned, Workers


class Stopped(Exception):
    """The call took more time or memory than it has, or its native code crashed."""


async def value_of(workers: Workers, function: str, /, *args: Any, limit_s: float) -> Any:
    """What `function` (`package.module:name`) returns, in a worker process.

    Raises Stopped, which is the data's fault, and VerifierError for what the function raises,
    which is ours; also when there is no worker that works.
    """
    match await workers.call(function, *args, limit_s=limit_s):
        case Returned(value):
            return value
        case Raised(kind, message) if kind != "RecursionError":
            raise VerifierError(f"{function} raised {kind}: {message}")
        case _:
            raise Stopped
