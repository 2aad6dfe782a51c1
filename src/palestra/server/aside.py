"""`Aside`: an author's plain functions, run where one that never returns holds nobody else up."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from palestra.server.author_calls import on_a_thread

T = TypeVar("T")

AT_ONCE: Final = 4
"""Enough that one slow call does not hold up the others; more would only compete for the
interpreter's lock, also with the event loop."""


class Aside:
    """Threads for the calls of one server.

    A call that is cancelled, at its rollout's deadline or because its caller has gone, is left
    behind: Python cannot stop a thread, but the rollout ends in time and another call gets the
    place.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = CapacityLimiter(at_once)

    async def run(self, function: Callable[[], T]) -> T:
        """What `function` returns or raises, called on a thread with the caller's context.

        What is no ordinary exception (`sys.exit()`, StopIteration, …) would mean something else
        out here, to the loop or to the command: it is raised as a RuntimeError from the original.
        """
        return await to_thread.run_sync(
            partial(_contained, function), abandon_on_cancel=True, limiter=self._places
        )


def _contained(function: Callable[[], T]) -> T:
    try:
        with on_a_thread():
            return function()
    except StopIteration as error:
        raise RuntimeError(_told(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(_told(error)) from error


def _told(error: BaseException) -> str:
    return f"raised {type(error).__name__}" + (f": {error}" if str(error) else "")
