"""Send a stored row to its verifier: the result is a row with a new reward, or a typed failure."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from palestra.engine import ScoredEnding, ending_in
from palestra.errors import (
    CallError,
    DeadlineExceeded,
    Hopeless,
    InfraError,
    Outcome,
    RowIdentity,
)
from palestra.rollouts.results import described, line_of, raise_if_marked, reward_in
from palestra.rollouts.reverification.files import key_of_row
from palestra.rollouts.reverification.in_order import RowJob
from palestra.rollouts.reverification.modes import Sessions
from palestra.rollouts.reverification.replay import replay_tools, replay_turns
from palestra.rollouts.reverification.stored import RESPONSE, StoredRow
from palestra.rollouts.reverification.task_rows import IDENTITY
from palestra.schema import (
    CONVERSATION_DIFFERS,
    CREATE_PARAMS,
    EMPTY_ANSWER,
    FAILURE_CLASS,
    JUDGE_EVALUATIONS,
    JUDGE_REPLAY,
    PREVIOUS_REWARD,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TURN_LIMIT_REACHED,
    JsonDict,
    JsonObject,
    Response,
    ResponseCreateParams,
    VerifyResponse,
    encode_json,
    fields_of,
)
from palestra.transport import CallContext, ServerClient, calling

ENDED_WITHIN_S = 4.5
"""The maximum time in seconds, after a row's deadline, for the fleet to end a process that the
row's call blocks."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A row with its new reward. `line`: the result row as JSON.

    `conversation_differs`: see the field `CONVERSATION_DIFFERS`.
    """

    ending: ScoredEnding
    line: bytes
    conversation_differs: bool = False


@dataclass(frozen=True, slots=True)
class Unverified:
    """A row without a new reward, and the kind of failure. `line`: the failures-file row as JSON."""

    outcome: Outcome
    line: bytes


_NO_SESSIONS = Sessions()


class Verifier:
    """Sends stored rows to `/verify`. `sessions`: the servers that need a session first.

    `stopped`: earlier failures of rows that are not verified again; see `stopped_rows`.
    """

    def __init__(
        self,
        client: ServerClient,
        *,
        sessions: Sessions = _NO_SESSIONS,
        fresh_judge: bool = False,
        timeout_s: float = 600.0,
        stopped: Mapping[str, JsonObject] | None = None,
    ) -> None:
        self._client = client
        self._stopped = stopped or {}
        self._sessions = sessions
        self._fresh_judge = fresh_judge
        self._timeout_s = timeout_s

    async def verify(self, job: RowJob[StoredRow]) -> Verified | Unverified:
        """Return the new result row, or the failure. Raises Hopeless: every row would fail in the
        same way. Raises ServerDied: the fleet has ended.
        """
        stored = job.source
        identity = _row_identity(stored)
        failure = self._stopped.get(key_of_row(identity))
        if failure is not None:
            return _unverified(stored, failure)
        context = CallContext(identity, time.monotonic() + self._timeout_s, job)
        try:
            with calling(context):
                async with asyncio.timeout(self._timeout_s):
                    return await self._verify(stored)
        except Hopeless:
            raise
        except TimeoutError:
            await self._wait_for_the_fleet()
            error: CallError = DeadlineExceeded(
                f"not verified within {self._timeout_s:g} s; it was awaiting {job.describe()}",
                hint="raise the limit of each row: `palestra reverify --timeout SECONDS`",
            )
        except DeadlineExceeded as late:
            await self._wait_for_the_fleet()
            error = late
        except CallError as failed:
            if isinstance(failed, InfraError):
                # Where the fleet has ended, this is no failure of the row.
                await self._client.raise_fleet_end(failed)
            error = failed
        return _unverified(stored, described(error))

    async def _wait_for_the_fleet(self) -> None:
        """Wait for the fleet to end a blocked process; this ends the re-verification too.

        If the process continues instead, rows that were waiting for it are verified as usual.
        """
        until = time.monotonic() + ENDED_WITHIN_S
        while time.monotonic() < until:
            if not self._client.standing_still():
                return
            await asyncio.sleep(0.1)

    async def _verify(self, stored: StoredRow) -> Verified:
        peer = self._client.peer(stored.server)
        is_same = True
        fields = stored.task_fields()
        sessions, replay = self._sessions, {} if self._fresh_judge else {JUDGE_REPLAY: True}
        turned = stored.server in sessions.turned
        replayed = stored.server in sessions.replayed
        if turned or replayed or stored.server in sessions.forced:
            # `start`, tools and replies may ask a judge, too.
            judge_fields = replay if JUDGE_EVALUATIONS in fields else {}
            seed = {**fields, **judge_fields}
            if turned:
                from palestra.server import Seeded

                max_turns = (await peer.call("/seed_session", seed, Seeded)).max_turns
                is_same = await replay_turns(
                    peer,
                    stored.row[RESPONSE],
                    max_turns,
                    ended_at_limit=stored.row.get(TURN_LIMIT_REACHED) is True,
                )
            else:
                await peer.notify("/seed_session", seed)
        if replayed:
            is_same = await replay_tools(peer, stored.row[RESPONSE]["output"])
        verify_fields = self._parsed(stored)
        body = {**fields, **verify_fields, **replay}
        result = await peer.call("/verify", body, VerifyResponse)
        return _verified(stored, fields_of(result), verify_fields, differs=not is_same)

    def _parsed(self, stored: StoredRow) -> JsonDict:
        """Return the request parameters and the response: as objects for an environment in this
        process, else as JSON values.
        """
        verify_fields = {name: stored.row[name] for name in (CREATE_PARAMS, RESPONSE)}
        if self._client.target(stored.server).local is None:
            return verify_fields
        # What does not fit is for the environment to say, in its own words.
        with contextlib.suppress(ValidationError):
            return {
                CREATE_PARAMS: ResponseCreateParams.model_validate(verify_fields[CREATE_PARAMS]),
                RESPONSE: Response.model_validate(verify_fields[RESPONSE]),
            }
        return verify_fields


def _row_identity(stored: StoredRow) -> RowIdentity:
    """Return the row's identity; its line number replaces a missing task index."""
    task, rollout = stored.row.get(TASK_INDEX), stored.row.get(ROLLOUT_INDEX)
    return RowIdentity(
        task if isinstance(task, int | str) else stored.place(),
        rollout if isinstance(rollout, int) else None,
        agent=stored.agent,
    )


def _verified(
    stored: StoredRow, fields: JsonDict, verify_fields: JsonObject, *, differs: bool
) -> Verified:
    raise_if_marked(fields)
    reward = reward_in(fields)
    for name, sent_value in verify_fields.items():
        if isinstance(sent_value, BaseModel) and fields.get(name) is sent_value:
            # Handed back untouched: it is written as it was stored, which is also faster.
            fields[name] = stored.row[name]
    for name in (JUDGE_REPLAY, *IDENTITY):
        fields.pop(name, None)
    ending = ending_in(fields, reward)
    row = {**fields, "reward": reward, PREVIOUS_REWARD: stored.previous, **stored.identity()}
    if ending.empty:
        row[EMPTY_ANSWER] = True
    if differs:
        row[CONVERSATION_DIFFERS] = True
    return Verified(ending, line_of(row), differs)


def _unverified(stored: StoredRow, failure: JsonObject) -> Unverified:
    # The class comes first: that is how a failure's line is known.
    line = {
        FAILURE_CLASS: failure[FAILURE_CLASS],
        "line": stored.line,
        **({"of_failures": True} if stored.unverified else {}),
        **stored.identity(),
        "environment": stored.server,
        **{name: value for name, value in failure.items() if name != FAILURE_CLASS},
    }
    return Unverified(Outcome(failure[FAILURE_CLASS]), encode_json(line))
