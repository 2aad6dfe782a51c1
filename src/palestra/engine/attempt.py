"""One attempt at one rollout: its row goes to its agent's `/run`, within a deadline."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from palestra.engine.deadlines import Deadlines
from palestra.engine.job import Job
from palestra.errors import CallError, DeadlineExceeded, RowIdentity
from palestra.schema import CREATE_PARAMS, VerifyResponse, model_turns
from palestra.transport import CallContext, ServerClient, calling

STANDS_STILL = (
    "look at the server that stands still: a longer timeout does not help; `async def` code must "
    "not block, and a plain `def` runs where it can be stopped"
)
LONGEST_GRACE_S = 0.5
SHARE_OF_GRACE = 0.25
"""After its deadline an attempt gets a moment more, a share of it: the servers that gave up at the
deadline know what was awaited, and their answers are on the way."""


def with_grace(limit_s: float) -> float:
    """How long an attempt with that limit is waited for."""
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
    """What the agent answered, unchecked. Raises `CallError`, and `DeadlineExceeded` in the end.

    `deadlines`: the one timer for attempts that share a limit, which must be `with_grace(limit_s)`.
    `call_limit_s` bounds each call that is made for the rollout. `patience_s`: for how long a model
    endpoint may refuse all calls of the run before one of them raises `EndpointRefuses`.
    """
    context = CallContext(
        row=identity,
        deadline=time.monotonic() + limit_s,
        activity=job,
        call_limit_s=call_limit_s,
        written_turns=_written_turns(row),
        patience_s=patience_s,
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
    except TimeoutError:
        raise _explained(timed_out(job.describe(), limit_s), client, identity) from None
    except DeadlineExceeded as error:
        raise _explained(error, client, identity) from error.__cause__


def _explained(error: DeadlineExceeded, client: ServerClient, row: RowIdentity) -> CallError:
    """A timeout, with the server processes that stand still: what it awaited may not be to blame.

    A rollout whose own call holds a process did not time out: that call failed.
    """
    overrun = client.overrun_of(row)
    if overrun is not None:
        overrun.evidence = replace(overrun.evidence, hops=error.evidence.hops)
        if overrun.verify_request is None:
            overrun.verify_request = error.verify_request
        return overrun
    still = client.standing_still()
    if still:
        error.message = f"{'; '.join(still)}; this rollout: {error.message}"
        error.hint = STANDS_STILL
    return error


def _written_turns(row: Mapping[str, Any]) -> int:
    """How many turns of a model the row's own conversation has."""
    params = row.get(CREATE_PARAMS)
    conversation = params.get("input") if isinstance(params, Mapping) else None
    return model_turns(conversation) if isinstance(conversation, list) else 0


def timed_out(activity: str, limit_s: float) -> DeadlineExceeded:
    """The failure of a rollout that took longer than it may."""
    return DeadlineExceeded(
        f"not done within {limit_s:.0f} s; it was awaiting {activity}",
        hint="raise rollout_timeout, or find out why that is slow",
    )


def went_on(activity: str, limit_s: float) -> DeadlineExceeded:
    """The failure of a rollout that took longer than it may and did not let itself be stopped."""
    return DeadlineExceeded(
        f"not done within {limit_s:.0f} s, and it goes on although it was cancelled; "
        f"it was awaiting {activity}",
        hint="code there swallows asyncio.CancelledError (a bare `except:` or `except "
        "BaseException:` in a loop): let it pass",
    )
