"""One attempt at one rollout: send its row to the agent's `/run`, with a deadline."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from palestra.engine.deadlines import Deadlines
from palestra.engine.job import Job
from palestra.errors import (
    AgentError,
    CallError,
    CallEvidence,
    DeadlineExceeded,
    InfraError,
    KeptWaiting,
    RowError,
    RowIdentity,
)
from palestra.observability import rollout_id_of
from palestra.schema import CREATE_PARAMS, ROLLOUT_ID, VerifyResponse, model_turns
from palestra.transport import CallContext, ServerClient, calling

STANDS_STILL = (
    "look at the server that is blocked: a longer timeout does not help; `async def` code must "
    "not block, and a plain `def` runs in a process that can be stopped"
)
LONGEST_GRACE_S = 0.5
SHARE_OF_GRACE = 0.25
"""The grace period after an attempt's deadline, as a share of its limit. Servers that stop at the
deadline report what they waited for, and their responses need this time to arrive."""


def with_grace(limit_s: float) -> float:
    """Return the total time in seconds that an attempt with this limit may take, including the
    grace period.
    """
    return limit_s + min(LONGEST_GRACE_S, limit_s * SHARE_OF_GRACE)


async def attempt(
    client: ServerClient,
    row: Mapping[str, Any],
    identity: RowIdentity,
    job: Job,
    *,
    limit_s: float,
    deadlines: Deadlines | None = None,
    call_limit_s: float | None = None,
    patience_s: float | None = None,
) -> VerifyResponse:
    """Send a row to its agent and return the response, unchecked. Raises `CallError`;
    `DeadlineExceeded` at the timeout.

    `deadlines`: a shared timer for attempts with the same limit, which must equal
    `with_grace(limit_s)`. `call_limit_s`: the timeout of each call made for the rollout.
    `patience_s`: how long a model endpoint may refuse all calls of the run before `EndpointRefuses`
    is raised.
    """
    context = CallContext(
        row=identity,
        deadline=time.monotonic() + limit_s,
        activity=job,
        call_limit_s=call_limit_s,
        written_turns=_written_turns(row),
        patience_s=patience_s,
        rollout_id=_own_id(row),
    )
    own_limit_s = None if deadlines is not None else with_grace(limit_s)
    try:
        async with asyncio.timeout(own_limit_s) as limit:
            with calling(context):
                peer = client.peer(job.agent)
                if deadlines is None:
                    return await peer.call("/run", row, VerifyResponse)
                with deadlines.over(limit):
                    return await peer.call("/run", row, VerifyResponse)
    except TimeoutError as expired:
        error = timed_out(job.describe(), limit_s, _line_of_wait(expired, client))
        raise await _explained(error, client, identity) from None
    except DeadlineExceeded as error:
        raise await _explained(error, client, identity) from error.__cause__
    except (InfraError, AgentError) as error:
        # Where the fleet has ended, this is no failure of the rollout.
        await client.raise_fleet_end(error)
        raise


def _line_of_wait(expired: TimeoutError, client: ServerClient) -> str:
    """Return where an author's code of this process waited when the time was over; else empty."""
    if all(target.local is None for target in client.targets.values()):
        return ""
    # Here, because a process without servers has no need of it.
    from palestra.server import authors_line

    return authors_line(expired)


async def _explained(error: DeadlineExceeded, client: ServerClient, row: RowIdentity) -> CallError:
    """Return the timeout with a note on server processes whose event loops are blocked, since they
    may be the cause.

    When a call of this rollout itself blocks a process, return that call's error instead. When a
    call of another rollout blocks a process that this one awaited, return `KeptWaiting`.

    Raises ServerDied: the fleet has ended.
    """
    await client.ask_fleet(0.0)
    blocked = client.blocked_servers()
    if overrun := next(filter(None, (server.failure_of(row) for server in blocked)), None):
        overrun.evidence = replace(overrun.evidence, hops=error.evidence.hops)
        if overrun.verify_request is None:
            overrun.verify_request = error.verify_request
        return overrun
    if not blocked:
        return error
    sentences = "; ".join(server.message for server in blocked)
    message = f"{sentences}; this rollout: {error.message}"
    if any(server.is_blocked_by_rollout and _awaited(server.server, error) for server in blocked):
        kept_waiting = KeptWaiting(message, hint=STANDS_STILL, evidence=error.evidence)
        kept_waiting.verify_request = error.verify_request
        return kept_waiting
    error.message, error.hint = message, STANDS_STILL
    return error


def _awaited(server: str, error: DeadlineExceeded) -> bool:
    """Whether the rollout that timed out had called `server` and got no answer from it."""
    is_hop = any(hop.server == server for hop in error.evidence.hops)
    return (
        is_hop or re.search(rf"(?<![\w-]){re.escape(server)}(?![\w-])", error.message) is not None
    )


def _own_id(row: Mapping[str, Any]) -> str:
    """Return the rollout id that the row's author chose; empty when it is made of the indices.

    Raises RowError: it is not an id.
    """
    if row.get(ROLLOUT_ID) is None:
        return ""
    try:
        return rollout_id_of(row) or ""
    except ValueError as error:
        raise RowError(f"/{error}") from None


def _written_turns(row: Mapping[str, Any]) -> int:
    """Return the number of model turns that the row's input already contains."""
    params = row.get(CREATE_PARAMS)
    conversation = params.get("input") if isinstance(params, Mapping) else None
    return model_turns(conversation) if isinstance(conversation, list) else 0


def timed_out(activity: str, limit_s: float, line: str = "") -> DeadlineExceeded:
    """Return the error for a rollout that exceeded its time limit. `line`: where an author's code
    waited.
    """
    where = f" at {line}" if line else ""
    return DeadlineExceeded(
        f"not done within {limit_s:.0f} s; it was awaiting {activity}{where}",
        hint="raise rollout_timeout, or find out why the last thing it awaited is slow",
        evidence=CallEvidence(traceback=line),
    )


def went_on(activity: str, limit_s: float) -> DeadlineExceeded:
    """Return the error for a rollout that exceeded its time limit and kept running after it was
    cancelled.
    """
    return DeadlineExceeded(
        f"not done within {limit_s:.0f} s, and it goes on although it was cancelled; "
        f"it was awaiting {activity}",
        hint="some code catches asyncio.CancelledError (a bare `except:` or `except "
        "BaseException:` in a loop): re-raise it there",
    )
