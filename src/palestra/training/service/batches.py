"""The batches of a rollout service: their outcomes wait until the client has acknowledged them.

An outcome is taken from its submission only when the client asks for it, so that a slow client slows
the starting of rollouts, as in a client of its own. Then it is kept as a line until the client asks
for the lines after it. A stream that was cut is taken up again there: nothing is lost, and nothing
comes twice.
"""

import asyncio
import contextlib
import hashlib
import itertools
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NamedTuple, final

import msgspec

from palestra.errors import InputDataError, PalestraError, RunFailed
from palestra.training.contract import Submission
from palestra.training.outcomes import Outcome, json_of, packed_of
from palestra.training.rows import check_group_sizes
from palestra.training.service.failures import error_to_json
from palestra.training.service.wire import (
    NO_ERROR,
    BatchRequest,
    BatchState,
    GroupLine,
    PageEnd,
    StreamEnd,
)

logger = logging.getLogger("palestra.training")

Item = Outcome | GroupLine
"""What a line is made of."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The size of lines after which a stream ends, however many lines were asked for."""
LINGER_S: Final = 0.02
"""How long a page waits for further lines after its first one: rollouts end in bursts, and a page
for each would cost more than the outcome itself."""
STOPPING_S: Final = 30.0
"""The longest time in seconds that a batch which is stopped waits for its running rollouts."""
GROUPS: Final = "groups"
MOST_FORGOTTEN: Final = 1000
"""The number of cancelled batches whose ids are remembered, to say what became of them."""


class NoBatch(RunFailed):
    """Error: there is no batch of that id."""


class LeaseOver(RunFailed):
    """Error: the batch was cancelled, because its client was silent for too long."""


class TakenOtherwise(RunFailed):
    """Error: lines that were acknowledged cannot be had again, nor a batch in a second way."""


class OtherBatch(RunFailed):
    """Error: the id stands for a batch that was submitted with another request."""


class TakenLines(NamedTuple):
    """Lines of a batch, for a stream."""

    lines: list[bytes]
    last_line: bytes
    """The line that ends the stream, if it ends here."""
    is_last: bool
    """Whether the batch has no further lines."""


@final
class ServedBatch:
    """One submission, as lines that wait for their acknowledgement."""

    def __init__(
        self, name: str, handle: Submission, request: BatchRequest, *, lease_s: float
    ) -> None:
        self.name = name
        self.handle = handle
        self.digest = digest_of(request)
        """What the batch was submitted with."""
        self._group_sizes = Counter(item.group for item in request.requests)
        self._lease_s = lease_s
        self.heard = time.monotonic()
        """When the client was last heard of."""
        self._readers = 0
        self._way = ""
        self._encode: Callable[[object], bytes] = json_of
        self._first = 0
        """The number of lines that were acknowledged, and so forgotten."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._end: bytes | None = None
        self._wanted_lines = 0
        self._demand = asyncio.Event()
        self._changed = asyncio.Event()
        self._puller: asyncio.Task[None] | None = None
        self._is_stopping = False
        """Whether the error of `stop` is on its way to the client."""

    def state(self) -> BatchState:
        """Return the counts of the batch, and note that the client was heard of."""
        self.heard = time.monotonic()
        return self.seen()

    def seen(self) -> BatchState:
        """Return the counts of the batch. The lease stays as it is."""
        silent_s = 0.0 if self._readers else time.monotonic() - self.heard
        return BatchState(self.name, self.handle.summary(), self._lease_s, silent_s)

    @property
    def is_full(self) -> bool:
        """Whether so many bytes wait for their acknowledgement that no line is added."""
        return self._bytes >= MOST_BYTES

    @property
    def is_silent(self) -> bool:
        """Whether the client was not heard of for longer than the lease."""
        return not self._readers and time.monotonic() - self.heard > self._lease_s

    def take(self, way: str, size: int = 0, *, packed: bool = False) -> None:
        """Begin to take the batch: its `outcomes`, its `groups` of a size, or all as `gathered`.

        Raises TakenOtherwise: it is taken in another way. Raises InputDataError: a group does not
        have this size.
        """
        if way == GROUPS:
            check_group_sizes(self._group_sizes, size)
        name = (f"{way} of {size}" if size else way) + (", packed" if packed else "")
        if self._way not in {"", name}:
            raise TakenOtherwise(
                f"the batch is taken as {self._way} and cannot be taken as {name}",
                hint="take a batch in only one way: outcomes, groups of one size, or gathered",
            )
        self._way = name
        if self._puller is None and self._end is None:
            self._encode = packed_of if packed else json_of
            items = _ITEMS[way](self.handle, size)
            self._puller = asyncio.create_task(self._pull(items), name=f"batch {self.name}")

    def acknowledge(self, after: int) -> None:
        """Forget the first `after` lines: the client has them.

        Raises TakenOtherwise: more lines were acknowledged before. Raises InputDataError: there are
        not so many.
        """
        if after < self._first:
            raise TakenOtherwise(
                f"lines up to {self._first} were acknowledged, so those after {after} are gone",
                hint="one client takes a batch; `after` is the number of lines that it has",
            )
        if after > self._first + len(self._lines):
            raise InputDataError(
                f"after={after}, and only {self._first + len(self._lines)} lines were sent"
            )
        while self._first < after:
            self._bytes -= len(self._lines.popleft())
            self._first += 1

    async def lines(self, after: int, limit: int, wait_s: float) -> "TakenLines":
        """Return at most `limit` lines after the first `after` ones, which must not be acknowledged
        further.

        Waits for the first line, and then for those that follow it closely.
        """
        skipped = after - self._first
        with self._reading(skipped + limit):
            await self._until(lambda: len(self._lines) > skipped, wait_s)
            await self._until(lambda: len(self._lines) >= skipped + limit, LINGER_S)
        lines = list(itertools.islice(self._lines, skipped, skipped + limit))
        is_last = self._end is not None and len(self._lines) == skipped + len(lines)
        last_line = self._end if is_last else None
        return TakenLines(lines, last_line or json_of(PageEnd(self.handle.summary())), is_last)

    @contextlib.contextmanager
    def _reading(self, count: int) -> Iterator[None]:
        self._readers += 1
        self._wanted_lines = count
        if len(self._lines) < count and not self.is_full:
            self._demand.set()
        try:
            yield
        finally:
            self._readers -= 1
            self._demand.clear()
            self.heard = time.monotonic()

    async def _until(self, is_enough: Callable[[], bool], wait_s: float) -> None:
        """Wait until there are enough lines, the batch has ended, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not is_enough() and self._end is None and not self.is_full:
                    self._changed.clear()
                    await self._changed.wait()

    async def _pull(self, items: AsyncIterator[Item]) -> None:
        """Take one item after another, as long as a page waits for them."""
        error: PalestraError | None = None
        try:
            while True:
                await self._demand.wait()
                line = self._encode(await anext(items))
                self._lines.append(line)
                self._bytes += len(line)
                if len(self._lines) >= self._wanted_lines or self.is_full:
                    self._demand.clear()
                self._changed.set()
        except StopAsyncIteration:
            pass
        except PalestraError as failure:
            error = failure
        except Exception as failure:  # a bug of ours: told to whoever waits for the batch
            logger.exception("batch %s", self.name)
            error = RunFailed(f"{type(failure).__name__}: {failure}")
        self._finish(error)

    def _finish(self, error: PalestraError | None) -> None:
        body = NO_ERROR if error is None else msgspec.Raw(error_to_json(error))
        self._end = json_of(StreamEnd(self.handle.summary(), body))
        self._changed.set()

    def stop(self, reason: str) -> None:
        """End the batch with an error, because of `reason`.

        A client that waits for outcomes gets those that have ended with the error.
        """
        if self._end is not None:
            return
        self._is_stopping = self._puller is not None and self.handle.summary().pending > 0
        if not self._is_stopping:
            self._finish(RunFailed(reason))
            self.handle.cancel()
            return
        self.handle.stop(reason)
        self._demand.set()

    async def aclose(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        if self._puller is not None:
            if self._is_stopping:
                await asyncio.wait({self._puller}, timeout=STOPPING_S)
            self._puller.cancel()
            await asyncio.wait({self._puller})
        await self.handle.aclose()
        if self._end is None:
            self._finish(RunFailed("the batch was closed"))


@final
class ServedBatches:
    """The batches of a service, by id."""

    def __init__(self, *, lease_s: float) -> None:
        self.lease_s = lease_s
        self._batches: dict[str, ServedBatch] = {}
        self._forgotten: OrderedDict[str, str] = OrderedDict()
        """Id of a batch that was cancelled -> why."""

    def add(
        self, name: str, request: BatchRequest, submit: Callable[[], Submission]
    ) -> ServedBatch:
        """Return the batch of that id; submit it unless it was submitted before.

        Raises OtherBatch: the batch of that id was submitted with another request.
        """
        if name not in self._batches:
            self._raise_if_forgotten(name)
            self._batches[name] = ServedBatch(name, submit(), request, lease_s=self.lease_s)
        elif self._batches[name].digest != digest_of(request):
            raise OtherBatch(
                f"batch {name} was submitted with another body",
                hint="give each submission an id of its own, such as a UUID; or DELETE this batch "
                "first",
            )
        return self._batches[name]

    def listed(self) -> list[BatchState]:
        """Return the counts of all batches, in the order of their submission."""
        return [batch.seen() for batch in self._batches.values()]

    def get(self, name: str) -> ServedBatch:
        """Return the batch of that id. Raises NoBatch or LeaseOver."""
        self._raise_if_forgotten(name)
        if name not in self._batches:
            raise NoBatch(
                f"there is no batch {name}",
                hint="was it submitted, and not deleted? Batches end with their service: was that "
                "started anew meanwhile?",
            )
        return self._batches[name]

    def _raise_if_forgotten(self, name: str) -> None:
        if name in self._forgotten:
            raise LeaseOver(
                self._forgotten[name],
                hint="each request about a batch renews its lease; `serve-rollouts --lease` makes it "
                "longer",
            )

    async def close(self, name: str) -> BatchState:
        """Close a batch, forget it, and return its final counts."""
        batch = self.get(name)
        await batch.aclose()
        self._batches.pop(name, None)
        return batch.state()

    async def watch(self) -> None:
        """Cancel the batches of clients that are silent for too long. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self.lease_s / 4)
            for batch in [batch for batch in self._batches.values() if batch.is_silent]:
                await self._expire(batch)

    async def _expire(self, batch: ServedBatch) -> None:
        reason = f"batch {batch.name} was cancelled: its client was silent for {self.lease_s:g} s"
        logger.warning(reason)
        self._forgotten[batch.name] = reason
        if len(self._forgotten) > MOST_FORGOTTEN:
            self._forgotten.popitem(last=False)
        self._batches.pop(batch.name, None)
        await batch.aclose()

    async def aclose(self, reason: str) -> None:
        """Close all batches, and tell the clients that wait for them why."""
        batches = list(self._batches.values())
        for batch in batches:
            batch.stop(reason)
        for batch in batches:
            await batch.aclose()


def _outcomes(handle: Submission, _: int) -> AsyncIterator[Item]:
    return aiter(handle)


async def _groups(handle: Submission, size: int) -> AsyncIterator[Item]:
    async for group in handle.groups(size):
        yield GroupLine(group.group_id, group.outcomes, group.left_out)


async def _gathered(handle: Submission, _: int) -> AsyncIterator[Item]:
    for outcome in await handle.gather():
        yield outcome


def digest_of(request: BatchRequest) -> bytes:
    """Return a digest of a submission. Spaces and the order of fields make no difference."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).digest()


_ITEMS: Final[dict[str, Callable[[Submission, int], AsyncIterator[Item]]]] = {
    "outcomes": _outcomes,
    GROUPS: _groups,
    "gathered": _gathered,
}
