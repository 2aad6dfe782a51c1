"""Re-verification: run the current verifiers on stored responses, without a model.

Rows are verified concurrently and written in input order. Each row is written exactly once: with a
new reward, or as a typed failure. A row without a verdict never gets a reward.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from palestra.engine import Accounting, Engine, Job, ScoredEnding, ending_in
from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    Hopeless,
    InfraError,
    InputDataError,
    Outcome,
    RowIdentity,
)
from palestra.rollouts.collect import Progress
from palestra.rollouts.results import described, line_of, raise_if_marked, reward_in
from palestra.rollouts.reverification.changes import Changes
from palestra.rollouts.reverification.files import Origin, Partial, is_failure, key_of_row
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
    SELECT_FAILED,
    TASK_INDEX,
    TURN_LIMIT_REACHED,
    JsonDict,
    JsonObject,
    Response,
    ResponseCreateParams,
    RolloutKey,
    VerifyResponse,
    encode_json,
    fields_of,
)
from palestra.transport import CallContext, Peer, ServerClient, calling

_MCP = "mcp__"
CALL, CALL_OUTPUT = "function_call", "function_call_output"


async def replay_tools(peer: Peer, output: Any) -> bool:
    """Run a trajectory's tool calls one after another. Return whether each answers as it did.

    Raises `CallError`: a call fails.
    """
    is_same = True
    for call in answered_calls(output):
        answer = await peer.call_tool(call.name, call.arguments)
        is_same = call.is_answered_by(answer) and is_same
    return is_same


async def replay_turns(
    peer: Peer,
    response: JsonObject,
    max_turns: int | None = None,
    *,
    ended_at_limit: bool = False,
) -> bool:
    """Run a trajectory's tool calls, and send each turn without calls to `/step`, in order.

    A turn that was cut off was never sent. Return whether the environment says the same as it did:
    the same answers of tools, the same text after each turn, and the end after the last one.
    `max_turns`: the limit of today's environment. `ended_at_limit`: the conversation ended at a limit,
    which may be the agent's, so that what the user said last is not known. Raises `CallError`: a call
    fails.
    """
    from palestra.server import Step

    output = response.get("output")
    items = (
        [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []
    )
    turns = list(_turns(items))
    is_same = True
    for number, (turn, answers, heard) in enumerate(turns, start=1):
        is_last, at_limit = number == len(turns), max_turns is not None and number >= max_turns
        if not is_last and at_limit:
            is_same = False
        if any(item.get("type") == CALL for item in turn):
            is_same = await replay_tools(peer, [*turn, *answers]) and is_same
        elif not is_last or response.get("incomplete_details") is None:
            step = await peer.call("/step", {"response": {**response, "output": turn}}, Step)
            goes_on = not (step.terminated or step.truncated or at_limit)
            says = step.observation if goes_on else None
            is_known = not (is_last and ended_at_limit)
            is_same = is_same and (says == heard or not is_known)
    return is_same


def _turns(
    items: Iterable[JsonObject],
) -> Iterator[tuple[list[JsonObject], list[JsonObject], str | None]]:
    """Yield the items of each turn of the model, the answers to its calls, and what the user said after
    it: None for nothing.
    """
    turn: list[JsonObject] = []
    answers: list[JsonObject] = []
    heard: str | None = None
    is_over = False
    for item in items:
        is_user = item.get("role") == "user"
        is_answer = item.get("type") == CALL_OUTPUT
        if is_answer or is_user:
            is_over = bool(turn)
            if is_answer:
                answers.append(item)
            elif turn:
                heard = (heard or "") + _text_of(item.get("content"))
            continue
        if is_over:
            yield turn, answers, heard
            turn, answers, heard, is_over = [], [], None, False
        turn.append(item)
    if turn:
        yield turn, answers, heard


def _text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A tool call that the environment answered. `output`: the answer that the model saw.

    `through_mcp`: an MCP client made the call, and wrote the answer in its own form.
    """

    name: str
    arguments: JsonObject
    output: Any
    through_mcp: bool = False

    def is_answered_by(self, answer: str) -> bool:
        """Return whether this answer says what the model saw, as text or as JSON."""
        if self.through_mcp or not isinstance(self.output, str) or answer == self.output:
            return True
        before = _decoded(self.output)
        return isinstance(before, dict | list) and before == _decoded(answer)


def answered_calls(output: Any) -> Iterator[AnsweredCall]:
    """Yield each tool call that the environment answered, in order."""
    output_items = output if isinstance(output, list) else []
    items = [item for item in output_items if isinstance(item, Mapping)]
    answers: dict[Any, list[Any]] = {}
    for item in items:
        if item.get("type") == CALL_OUTPUT:
            answers.setdefault(item.get("call_id"), []).append(item.get("output"))
    for item in items:
        of_call = answers.get(item.get("call_id"))
        if item.get("type") != CALL or not of_call:
            continue
        # A model may use the same ids again in each turn. A call without an answer of its own is
        # replayed with the last one.
        answer = of_call.pop(0) if len(of_call) > 1 else of_call[0]
        arguments = _decoded(item.get("arguments"))
        # What is no object was refused by the agent and never sent.
        if isinstance(arguments, dict):
            name, through_mcp = _plain_name(str(item.get("name")))
            yield AnsweredCall(name, arguments, answer, through_mcp)


def _plain_name(name: str) -> tuple[str, bool]:
    """Return the tool's own name, which is `get_weather` for `mcp__weather__get_weather` too, and
    whether it is the name of an MCP client.
    """
    return (name.split("__", 2)[-1], True) if name.startswith(_MCP) else (name, False)


def _decoded(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return None


STATELESS = "stateless"
REPLAY_TOOLS = "replay_tools"
REPLAY_TURNS = "replay_turns"
MODE_TIMEOUT_S = 30.0
ENDED_WITHIN_S = 4.5
"""The maximum time in seconds, after a row's deadline, for the fleet to end a process that the
row's call blocks."""
WINDOW = 4
"""The maximum number of finished rows that wait to be written, as a multiple of the concurrency."""

Row = TypeVar("Row")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class ReverifyLimits:
    """The limits: `concurrency` rows at once, and `timeout_s` seconds per row."""

    concurrency: int = 64
    timeout_s: float = 600.0


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


@dataclass(slots=True, kw_only=True)
class RowJob(Job, Generic[Row]):
    """The job of one row. `key.task`: the row's number among the rows of this session."""

    source: Row


class InOrder(Generic[Row, Done]):
    """Processes rows concurrently and writes the results in row order. It is the engine's `Work`.

    At most `concurrency` rows run at once. At most `WINDOW` times as many finished rows wait to be
    written, so a slow row does not let memory grow. After an early end, the file contains the first
    rows without gaps.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        work: Callable[[RowJob[Row]], Awaitable[Done]],
        write: Callable[[Row, Done], None],
        *,
        concurrency: int,
    ) -> None:
        self._rows = enumerate(rows)
        self._work = work
        self._write = write
        self._concurrency = concurrency
        self._unwritten: dict[int, tuple[Row, Done]] = {}
        self._written = 0
        self._engine: Engine[RowJob[Row], Done] = Engine(self)

    async def run(self) -> None:
        """Process all rows. Raises the first error that is not the failure of a row, in bounded
        time.
        """
        await self._engine.run()

    def take(self, running: int, /) -> RowJob[Row] | None:
        """Return the job of the next row; None when enough rows run or wait to be written, or no
        row is left.
        """
        window = self._concurrency * WINDOW
        if running >= min(self._concurrency, window - len(self._unwritten)):
            return None
        for number, row in self._rows:
            return RowJob(key=RolloutKey(number, 0), source=row)
        return None

    async def attempt(self, job: RowJob[Row], /) -> Done:
        """Process one row."""
        result = await self._work(job)
        # A verifier that never waits would keep signals and timers waiting.
        await asyncio.sleep(0)
        return result

    def settle(self, job: RowJob[Row], result: Done, /) -> None:
        """Store a result, then write all results that are next in row order."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return  # it was swallowed: this may be its effect, and the file may be closed
        self._unwritten[job.key.task] = job.source, result
        while self._written in self._unwritten:
            self._write(*self._unwritten.pop(self._written))
            self._written += 1
        self._engine.fill()

    def abandoned(self, job: RowJob[Row], /) -> Done:
        """Never called, because this engine abandons no jobs: the command's guard process ends a
        verification that does not stop.
        """
        raise NotImplementedError(job.key)


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
            "ReverifyMode.STATELESS`); --force verifies with a freshly seeded session; where the "
            "lost session matters, only new rollouts have a reward: "
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


@dataclass(frozen=True, slots=True)
class Reverification:
    """One re-verification: its rows, their origin, and the partial output."""

    rows: Callable[[], Iterator[StoredRow]]
    origin: Origin
    partial: Partial
    version: str
    limits: ReverifyLimits = ReverifyLimits()

    async def run(
        self,
        verifier: Verifier,
        *,
        on_start: Callable[[Progress], None] | None = None,
    ) -> JsonDict:
        """Verify the remaining rows, account for all rows, and write the output.

        Return the counts of rows, of verified rows and of failures by class, and the changes.
        Raises the error that ended the run early; finished rows are kept for `resume`.
        """
        progress = Progress(Accounting(self.origin.rows))
        tally = _Tally(progress.accounting, Changes())
        partial = self.partial
        rows = self.rows()
        tally.take_done(rows, partial)
        progress.done_before = progress.accounting.scored + progress.accounting.failed
        if on_start is not None:
            on_start(progress)

        def write(row: StoredRow, result: Verified | Unverified) -> None:
            partial.append(result.line)
            tally.add(row, result)

        await InOrder(rows, verifier.verify, write, concurrency=self.limits.concurrency).run()
        progress.accounting.check()
        result = tally.result()
        partial.finish(
            self.origin,
            result,
            failures=progress.accounting.failed > 0,
            version=self.version,
        )
        return result


@dataclass(slots=True)
class _Tally:
    """The counts of how rows ended, in this session and earlier ones."""

    accounting: Accounting
    changes: Changes

    def add(self, row: StoredRow, result: Verified | Unverified) -> None:
        if isinstance(result, Verified):
            self.accounting.score(result.ending)
            self.changes.verified(row, result.ending.reward)
            if result.conversation_differs:
                self.changes.conversation_differs(row)
        else:
            self.accounting.fail(result.outcome)
            self.changes.failed(row)

    def take_done(self, rows: Iterator[StoredRow], partial: Partial) -> None:
        """Count the finished rows and skip them. Raises InputDataError: the partial output does not
        match the rows.
        """
        for number, line in enumerate(partial.done(), start=1):
            row = next(rows, None)
            result = None if row is None else _read_back(line, row)
            if row is None or result is None:
                raise InputDataError(
                    f"line {number} of the partial output does not belong to its row",
                    hint="start again with --overwrite",
                )
            self.add(row, result)

    def result(self) -> JsonDict:
        ended_counts = sorted(self.accounting.ended.items())
        return {
            "rows": self.accounting.requested,
            "verified": self.accounting.scored,
            "truncated": self.accounting.ended[Outcome.TRUNCATED],
            "empty_answers": self.accounting.empty_answers,
            "failed": {o.value: count for o, count in ended_counts if not o.has_reward},
            **self.changes.as_json(),
        }


def _read_back(line: bytes, row: StoredRow) -> Verified | Unverified | None:
    """Return the result in a line of the partial output; None when the line belongs to another row."""
    try:
        row_fields = orjson.loads(line)
        identity = row.identity()
        if any(row_fields.get(name) != value for name, value in identity.items()):
            return None
        if is_failure(line):
            return (
                Unverified(Outcome(row_fields[FAILURE_CLASS]), b"")
                if row_fields["line"] == row.line
                else None
            )
        differs = row_fields.get(CONVERSATION_DIFFERS) is True
        return Verified(ending_in(row_fields, reward_in(row_fields)), b"", differs)
    except (ValueError, KeyError, AttributeError, CallError):
        return None
