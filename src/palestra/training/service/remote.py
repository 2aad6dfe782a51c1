"""`RemoteRolloutClient`: the client of a rollout service, with the contract of every client.

async with RemoteRolloutClient("http://trainers-friend:11500") as client:
    async with client.submit(requests) as batch:
        async for outcome in batch:
            ...
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Self, final

import msgspec
from msgspec.structs import replace

from palestra.errors import CallError, ConfigError, PalestraError, RunFailed
from palestra.schema import encode_json
from palestra.system import background
from palestra.training.checks import SECONDS, require
from palestra.training.errors import BatchFailed, Cause, IncompleteRollouts
from palestra.training.groups import Group
from palestra.training.health import Health
from palestra.training.outcomes import Completed, Failed, Outcome, Summary
from palestra.training.policies import PolicyWords
from palestra.training.requests import Key, RolloutRequest
from palestra.training.rows import check_group_sizes, distinct_requests, keys_among, refusal
from palestra.training.service.app import TOKEN_VARIABLE
from palestra.training.service.calls import BatchGone, ServiceCalls
from palestra.training.service.failures import error_from_json
from palestra.training.service.wire import (
    SERVICE,
    BatchRequest,
    BatchState,
    CancelRequest,
    GroupReadLine,
    PackedLine,
    PageEnd,
    StreamEnd,
    WeightVersion,
    group_of,
    outcome_of,
)
from palestra.training.settings import Attempts, ClientSettings
from palestra.transport import HttpClient, new_id

logger = logging.getLogger("palestra.training")

PATIENCE_S: Final = 60.0
LINES_AT_ONCE: Final = 256
WAIT_S: Final = 20.0
"""How long a request for outcomes waits for the first one."""
RENEWALS: Final = 3
"""How often a lease is renewed while it lasts."""

_PAGE: Final = msgspec.msgpack.Decoder(type=list[PackedLine])
_LAST_LINE: Final = msgspec.json.Decoder(type=PageEnd | StreamEnd)

_OK: Final = 200

Order = Callable[[], Awaitable[Any]]


@final
class RemoteRolloutClient:
    """Runs rollouts on a rollout service (`palestra serve-rollouts`).

    `url`: the address of the service. `token`: its token; None: the variable
    `PALESTRA_ROLLOUTS_TOKEN`. `on_incomplete` and `min_fraction` replace the service's settings for
    this client's submissions. `patience_s`: how long a service that does not answer is asked again,
    before its rollouts are lost.

    `settings` are the service's, once the client is entered.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        on_incomplete: PolicyWords | None = None,
        min_fraction: float | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        require("patience_s", patience_s, SECONDS)
        self.settings = ClientSettings().for_batch(on_incomplete, min_fraction)
        self._policies = (on_incomplete, min_fraction)
        self._http = HttpClient()
        if token is None:
            token = os.environ.get(TOKEN_VARIABLE, "")
        self._calls = ServiceCalls(self._http, url, token, patience_s=patience_s)
        self._lease_s = 0.0
        self.weight_version: int | None = None
        """The weight version that the service had at the start, or that this client set last."""
        self._open: dict[str, RemoteSubmission] = {}
        self._orders = _Orders(is_chain=False)
        self._stack = AsyncExitStack()
        self._unusable = "has not been entered"
        """Why nothing can be submitted; empty when it can."""

    async def __aenter__(self) -> Self:
        try:
            status = await self._calls.operations.service_status()
            if status.service != SERVICE:
                raise ConfigError(f"{self._calls.url} is no rollout service: {status.service!r}")
            self.settings = _settings_of(status.settings).for_batch(*self._policies)
        except BaseException:
            await self._http.aclose()
            raise
        self._lease_s, self.weight_version = status.lease_s, status.weight_version
        self._stack.push_async_callback(self._http.aclose)
        await self._stack.enter_async_context(background(self._keep_leases(), "leases of batches"))
        self._unusable = ""
        return self

    async def __aexit__(self, *raised: object) -> None:
        del raised
        self._unusable = "is closed"
        try:
            await asyncio.gather(*(batch.aclose() for batch in list(self._open.values())))
        finally:
            await self._stack.aclose()

    def submit(
        self,
        requests: Iterable[RolloutRequest],
        *,
        deadline_s: float | None = None,
        on_incomplete: PolicyWords | None = None,
        min_fraction: float | None = None,
    ) -> "RemoteSubmission":
        """Submit rollouts. Raises InputDataError: a request is wrong, or occurs twice.

        Rows that a server of the fleet rejects are refused by the service, so that error is raised
        when the first outcome is taken.
        """
        if self._unusable:
            raise RuntimeError(f"the client {self._unusable}: `async with RemoteRolloutClient(…)`")
        require("deadline_s", deadline_s, SECONDS.or_none())
        settings = self.settings.for_batch(on_incomplete, min_fraction)
        accepted, problems = distinct_requests(requests)
        body = BatchRequest(
            requests=_encoded(accepted, problems),
            deadline_s=deadline_s,
            on_incomplete=_words(settings.on_incomplete),
            min_fraction=settings.min_fraction,
        )
        batch = RemoteSubmission(
            self._calls, accepted, body, after=self._orders.flush, on_close=self._forget
        )
        self._open[batch.name] = batch
        return batch

    def _forget(self, name: str) -> None:
        self._open.pop(name, None)

    async def health(self) -> Health:
        """Return the service's health; when it does not answer, a health that says so."""
        try:
            await self._orders.flush()
            return await self._calls.once.health()
        except CallError as error:
            reason = f"the rollout service at {self._calls.url} does not answer: {error.message}"
            return Health(
                ok=False,
                reason=reason,
                in_flight=0,
                queued=0,
                waiting=0,
                paused=False,
                held_back="",
                weight_version=None,
            )

    def pause(self) -> None:
        """Start no more rollouts until `resume`. Errors are raised by the next call that waits."""
        self._orders.add(self._calls.operations.pause)

    def resume(self) -> None:
        """Start rollouts again. Errors are raised by the next call that waits."""
        self._orders.add(self._calls.operations.resume)

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on.

        Raises ConfigError: it is lower than before. Raises CallError: the service does not answer.
        """
        await self._orders.flush()
        await self._calls.operations.set_weight_version(WeightVersion(version))
        self.weight_version = version

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`.

        Raises CallError: the service does not answer, or a model server cannot be reached.
        """
        await self._orders.flush()
        await self._calls.operations.hold_calls()

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / RENEWALS)
            for batch in list(self._open.values()):
                await batch.renew()


@final
class RemoteSubmission:
    """One submission to a service. Take its outcomes in only one way."""

    def __init__(
        self,
        calls: ServiceCalls,
        requests: list[RolloutRequest],
        body: BatchRequest,
        *,
        after: Order,
        on_close: Callable[[str], None],
    ) -> None:
        self.name = new_id()
        self._calls = calls
        self._groups: dict[Key, int | str] = {item.key: item.group for item in requests}
        self._missing = dict.fromkeys(self._groups)
        self._summary = Summary(len(requests), 0, {}, len(requests))
        self._on_close = on_close
        self._orders = _Orders(is_chain=True)
        self._orders.add(after)
        self._orders.add(lambda: self._submit(body))
        self._way = ""
        self._lines: deque[Outcome | Group] = deque()
        self._received = 0
        """The number of lines that arrived."""
        self._end: StreamEnd | None = None
        self._error: PalestraError | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        del raised
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Outcome]:
        """Yield every outcome, in the order in which they end."""
        while (outcome := await self.next()) is not None:
            yield outcome

    async def next(self) -> Outcome | None:
        """Return the next outcome; None after the last."""
        line = await self._next_line("outcomes")
        return line if isinstance(line, Completed | Failed) else None

    async def groups(self, size: int) -> AsyncIterator[Group]:
        """Yield each group as soon as all of its `size` members have ended."""
        check_group_sizes(Counter(self._groups.values()), size)
        while isinstance(group := await self._next_line("groups", size), Group):
            yield group

    async def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""
        outcomes: list[Outcome] = []
        try:
            while isinstance(line := await self._next_line("gathered"), Completed | Failed):
                outcomes.append(line)
        except asyncio.CancelledError:
            # What was taken is lost with it, so nobody can want the rest.
            self.cancel()
            raise
        except BatchFailed as error:
            error.outcomes = (*outcomes, *error.outcomes)
            raise
        return outcomes

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Cancel the rollouts with these keys, or all by default."""
        chosen_keys = keys_among(keys, self._groups)
        body = CancelRequest(None if chosen_keys is None else sorted(chosen_keys, key=str))
        if self._end is None and not self._closed:
            self._orders.add(lambda: self._changed(self._calls.operations.cancel_rollouts, body))

    def stop(self, reason: str) -> None:
        """End the submission with `IncompleteRollouts`, whose cause is `reason`, unless all rollouts
        have ended.
        """
        if self._end is None and self._error is None:
            self._error = self._lost(BatchGone(reason))
            self.cancel()

    def summary(self) -> Summary:
        """Return the counts of the submission, as the service's last answer has them."""
        return self._summary

    async def aclose(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(PalestraError):
                await self._orders.flush()
            with contextlib.suppress(BatchGone):
                await self._changed(self._calls.operations.close_batch)
        except CallError as error:
            logger.warning(
                "the rollout service cannot be told that a batch has ended, so it runs until its "
                "lease is over: %s",
                error.message,
            )
        finally:
            self._on_close(self.name)

    async def renew(self) -> None:
        """Renew the lease. The next outcome says what is wrong when that fails."""
        with contextlib.suppress(PalestraError):
            await self._orders.flush()
            self._summary = (await self._calls.once.batch_state(self.name)).summary

    async def _submit(self, body: BatchRequest) -> None:
        self._summary = (await self._calls.operations.submit_batch(self.name, body)).summary

    async def _changed(self, operation: Callable[..., Awaitable[BatchState]], *body: Any) -> None:
        self._summary = (await operation(self.name, *body)).summary

    async def _next_line(self, way: str, size: int = 0) -> Outcome | Group | None:
        if self._way not in {"", way}:
            raise RuntimeError("use only one of iteration, groups and gather for a submission")
        self._way = way
        while not self._lines and self._end is None and self._error is None:
            await self._fetch(size)
        if self._lines:
            return self._lines.popleft()
        if self._error is not None:
            raise self._error
        return None

    async def _fetch(self, size: int) -> None:
        """Ask for the lines after those that arrived."""
        try:
            await self._orders.flush()
            page = await self._page(size)
        except (CallError, BatchGone) as error:
            self._error = self._lost(error)
        except PalestraError as error:
            self._error = error
        else:
            try:
                self._take(page)
            except msgspec.MsgspecError:
                self._error = self._lost(self._calls.unreadable(_OK, page))
        if self._end is not None or self._error is not None:
            await self.aclose()

    def _page(self, size: int) -> Awaitable[bytes]:
        operations = self._calls.operations
        page: dict[str, Any] = {
            "after": self._received,
            "limit": LINES_AT_ONCE,
            "wait_s": WAIT_S,
            "packed": True,
        }
        if self._way == "groups":
            return operations.take_groups(self.name, size=size, **page)
        if self._way == "gathered":
            return operations.gather(self.name, **page)
        return operations.take_outcomes(self.name, **page)

    def _take(self, page: bytes) -> None:
        for line in _PAGE.decode(page):
            if isinstance(line, bytes):
                self._take_end(_LAST_LINE.decode(line))
            else:
                self._received += 1
                item = group_of(line) if isinstance(line, GroupReadLine) else outcome_of(line)
                self._lines.append(item)
                for outcome in item.completed if isinstance(item, Group) else [item]:
                    self._note(outcome)

    def _take_end(self, end: PageEnd | StreamEnd) -> None:
        self._summary = end.summary
        if isinstance(end, StreamEnd):
            self._end, self._error = end, self._end_of(error_from_json(end.error))

    def _note(self, outcome: Outcome) -> None:
        if isinstance(outcome, Completed):
            self._missing.pop(outcome.key, None)

    def _end_of(self, error: PalestraError | None) -> PalestraError | None:
        """Return the error that ends the batch: `IncompleteRollouts` when the service itself ended it."""
        if type(error) is not RunFailed:
            return error
        return self._lost(BatchGone(error.message, hint=error.hint))

    def _lost(self, error: PalestraError) -> BatchFailed:
        """Return the error for a batch whose service is gone, or has forgotten it."""
        sentence = error.message
        if not isinstance(error, BatchGone):
            sentence = f"the rollout service at {self._calls.url} does not answer: {sentence}"
        return IncompleteRollouts(
            requested=len(self._groups),
            received=len(self._groups) - len(self._missing),
            missing=tuple(self._missing),
            cause=Cause(sentence=sentence, setting=error.hint or "see the log of the service"),
            failures={"unfinished": len(self._missing)},
        )


@final
class _Orders:
    """Sends orders of callers that do not wait, one after another.

    `is_chain`: each makes sense only after those before it, so after one that failed none is sent,
    and its error stays. Else the error is raised once.
    """

    def __init__(self, *, is_chain: bool) -> None:
        self._is_chain = is_chain
        self._last: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        """Of the first order that failed and was not reported."""

    def add(self, order: Order) -> None:
        """Send an order after those before it."""
        self._last = asyncio.create_task(self._after(self._last, order))

    async def flush(self) -> None:
        """Wait until all orders were sent. Raises the error of one that failed."""
        if self._last is not None:
            await asyncio.shield(self._last)
        error = self._error
        if error is None:
            return
        if not self._is_chain:
            self._error = None
        raise error

    async def _after(self, last: "asyncio.Task[None] | None", order: Order) -> None:
        if last is not None:
            await last
        if self._is_chain and self._error is not None:
            return
        try:
            await order()
        except Exception as error:  # raised to the next caller that waits
            self._error = self._error or error


def _encoded(requests: list[RolloutRequest], problems: list[str]) -> list[RolloutRequest]:
    """Return the requests with their rows as JSON. Raises InputDataError, with the `problems` too."""
    encoded: list[Any] = []
    for request in requests:
        try:
            row: Any = msgspec.Raw(encode_json(request.row))
            sampling: Any = msgspec.Raw(encode_json(request.sampling))
        except (TypeError, ValueError) as error:
            problems.append(f"{request.key}: {error}")
        else:
            encoded.append(replace(request, row=row, sampling=sampling))
    if problems:
        raise refusal(problems)
    return encoded


def _words(policy: PolicyWords) -> str | dict[str, str]:
    if isinstance(policy, Mapping):
        return {str(name): str(word) for name, word in policy.items()}
    return str(policy)


def _settings_of(fields: Mapping[str, Any]) -> ClientSettings:
    """Return the settings that a service has. Settings that a newer one adds are left out."""
    names = {field.name for field in dataclasses.fields(ClientSettings)}
    values = {name: value for name, value in fields.items() if name in names}
    values["attempts"] = Attempts(**values["attempts"])
    return ClientSettings(**values).checked()
