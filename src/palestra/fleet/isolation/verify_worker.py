"""The program of a worker that verifies for an environment in one file, one call at a time.

It runs no event loop, so that the author's `verify` may start its own.
"""

import asyncio
import inspect
import socket
from collections.abc import Mapping
from functools import partial
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
from palestra.schema import JsonObject, encode_json, no_reward
from palestra.server import (
    EnvironmentDefinition,
    RolloutServices,
    explained_fields,
    own_frames,
    read_only,
    refuse_judge,
    text_of,
    verdict_of,
)
from palestra.transport import calling


def verifier_of(argument: dict[str, Any]) -> Serve:
    """Import the file, once for all workers, and return the program that each worker runs."""
    notice_ray_here({})
    env = load_environment(
        Path(argument["file"]), argument["class_name"], settings=argument["settings"]
    )
    return partial(serve, env, argument["where"])


def serve(
    env: EnvironmentDefinition, where: str, sock: socket.socket, endurance: Endurance
) -> None:
    """Answer calls on `sock` until the server closes the connection. `where`: the server and its
    path, for messages.
    """
    surroundings = Surroundings(sock, endurance)
    surroundings.say_ready(sock)
    loop = asyncio.Runner()
    while (order := receive(sock)) is not None:
        number, row, arguments, stored_seed, context = read_order(order)
        answer: tuple[Any, ...]
        try:
            with calling(context):
                services = RolloutServices(
                    task=read_only(row),
                    stored_seed=stored_seed,
                    make_judge=partial(refuse_judge, env.cls.verify),  # type: ignore[attr-defined]
                )
                answer = (VALUE, number, *_verdict(env, services, arguments, where, loop))
        except CallError as error:
            answer = (FAILED, number, encode_json(to_body(error)))
        except MemoryError:
            answer = (NO_MEMORY, number)
        except BaseException as error:
            # `sys.exit()`, too: it means this call, not this process.
            answer = (RAISED, number, type(error).__name__, text_of(error), own_frames(error))
        surroundings.restore()
        sock.sendall(message_frame(*answer))


def _verdict(
    env: EnvironmentDefinition,
    services: RolloutServices,
    arguments: JsonObject,
    where: str,
    loop: asyncio.Runner,
) -> tuple[Any, Mapping[str, float] | None, str]:
    """Return the reward (or a list with what it is instead), its components, and the seed that was
    used.
    """
    environment = env.made(services)
    with explained_fields(environment, services.task, method="verify"):
        returned = environment.verify(**arguments)  # type: ignore[attr-defined]  # an author's
        if inspect.isawaitable(returned):
            returned = loop.run(_awaited(returned))
    verdict = verdict_of(returned, env.cls.weights, where)
    is_number = isinstance(verdict.reward, float)
    reward = verdict.reward if is_number else [no_reward(verdict.reward)]
    components = None if verdict.components is None else dict(verdict.components)
    return reward, components, services.used_seed


async def _awaited(value: Any) -> Any:
    return await value
