"""How the verifier of each server gets the session that it needs, as the server says."""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from palestra.errors import ConfigError
from palestra.schema import SELECT_FAILED
from palestra.transport import CallContext, ServerClient, calling

STATELESS = "stateless"
REPLAY_TOOLS = "replay_tools"
REPLAY_TURNS = "replay_turns"
MODE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Sessions:
    """The servers whose verifier needs a session, by how the session is created.

    `replayed`: seeded from the row, then the trajectory's tool calls are run in it. `turned`: the
    same, and its turns are sent again. `forced`: only seeded, because the user gave --force.
    """

    replayed: frozenset[str] = frozenset()
    turned: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()


async def check_modes(
    client: ServerClient, servers: Collection[str], *, force: bool, any_failed: bool = True
) -> Sessions:
    """Return how each of `servers` gets the session that its verifier needs.

    `any_failed`: whether rollouts of the run failed, so that their tasks can be selected.

    Raises ConfigError: a server can verify only in the live session, and `force` is false.
    """
    answers = await asyncio.gather(*(_mode(client, name) for name in servers))
    modes = dict(zip(servers, answers, strict=True))
    replayed = frozenset(name for name, mode in modes.items() if mode == REPLAY_TOOLS)
    turned = frozenset(name for name, mode in modes.items() if mode == REPLAY_TURNS)
    replayable = replayed | turned
    bound = {n: mode for n, mode in modes.items() if mode != STATELESS and n not in replayable}
    if bound and not force:
        unsupported = [name for name, mode in bound.items() if mode == "unsupported"]
        raise ConfigError(
            _sentence(unsupported, "cannot verify stored responses: the session they need is gone")
            or _sentence(
                list(bound), "does not say whether it can verify without the live session"
            ),
            hint='`reverify_mode = "stateless"` in the server\'s class says that its verify needs '
            'nothing but the request, "replay_tools" that the tool calls of the trajectory make '
            "its session again (a NeMo Gym server says it in its config class: `REVERIFY_MODE = "
            "ReverifyMode.STATELESS`, or `.REPLAY_TOOLS`); --force verifies with a freshly seeded "
            "session; where the lost session matters, only new rollouts have a reward: "
            + (
                f"`{SELECT_FAILED}` writes the tasks without a score for a run of their own "
                "(--overwrite runs all again)"
                if any_failed
                else "the command that collected the run, with --overwrite, runs all again"
            ),
        )
    return Sessions(replayed, turned, frozenset(bound))


def _sentence(names: list[str], predicate: str) -> str:
    return f"{', '.join(names)} {predicate}" if names else ""


async def _mode(client: ServerClient, name: str) -> str:
    """Return the mode that a server reports: a JSON string, or an object that holds it."""
    from palestra.server import INFERRED_REVERIFY_MODE, REVERIFY_MODE_PATH

    with calling(CallContext(deadline=time.monotonic() + MODE_TIMEOUT_S)):
        reply = await client.get(name, REVERIFY_MODE_PATH)
    try:
        payload = await reply.json()
    except ValueError:
        payload = None
    mode = payload.get("reverify_mode") if isinstance(payload, Mapping) else payload
    mode = str(mode) if reply.ok and mode else "unknown"
    return reply.headers.get(INFERRED_REVERIFY_MODE, mode) if mode == "unknown" else mode
