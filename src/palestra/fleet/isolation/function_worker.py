"""The program of a one-file environment's worker: it calls the function, one call at a time.

It runs no event loop, so that the function may start its own.
"""

import asyncio
import inspect
import socket
from collections.abc import Callable
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from palestra.errors import CallError, to_body
from palestra.fleet.isolation.surroundings import Surroundings
from palestra.fleet.isolation.wire import (
    FAILED,
    NO_MEMORY,
    RAISED,
    VALUE,
    message_frame,
    read_order,
)
from palestra.fleet.loading import load_environment
from palestra.fleet.ray_clusters.place import notice_ray_here
from palestra.sandbox import Endurance, Serve, receive
from palestra.schema import encode_json, no_reward
from palestra.server import own_frames, text_of
from palestra.transport import calling


def function_of(argument: dict[str, str]) -> Serve:
    """Import the file, once for all workers, and return the program that each worker runs."""
    notice_ray_here({})
    return partial(serve, load_environment(Path(argument["file"])).verify)


def serve(function: Callable[..., Any], sock: socket.socket, endurance: Endurance) -> None:
    """Answer calls on `sock` until the server closes the connection."""
    surroundings = Surroundings(sock, endurance)
    surroundings.say_ready(sock)
    loop = asyncio.Runner()
    while (order := receive(sock)) is not None:
        number, keywords, context = read_order(order)
        answer: tuple[Any, ...]
        try:
            with calling(context):
                answer = (VALUE, number, _reward(function(**keywords), loop))
        except CallError as error:
            answer = (FAILED, number, encode_json(to_body(error)))
        except MemoryError:
            answer = (NO_MEMORY, number)
        except BaseException as error:
            # `sys.exit()`, too: it means this call, not this process.
            answer = (RAISED, number, type(error).__name__, text_of(error), own_frames(error))
        surroundings.restore()
        sock.sendall(message_frame(*answer))


def _reward(value: Any, loop: asyncio.Runner) -> Any:
    if inspect.isawaitable(value):
        value = loop.run(_awaited(value))
    if isinstance(value, Real):
        return float(value)  # NumPy's numbers are rewards too
    return [no_reward(value)]


async def _awaited(value: Any) -> Any:
    return await value
