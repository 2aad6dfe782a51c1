"""`Endpoints`: which of several endpoints a request goes to. Decides only, and sends nothing.

Rules:

- A session stays on its endpoint, which has the beginning of the conversation in its cache.
- A new session goes where the fewest requests are under way, of those that answer.
- An endpoint whose connections fail is left: its sessions move to others at their next request.
  After a pause, which doubles up to half a minute, one request tries it again; the others follow
  once that was answered.
- An endpoint that is busy (429, 503) is left for as long as it asks.
- When all are left, requests try the one whose pause ends first.
- A session with many requests at once is no conversation (a client that keeps cookies, say): what
  is too much goes where there is room.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import final

from palestra.errors import ModelError

logger = logging.getLogger("palestra.models")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
FORGOTTEN_AFTER_S = 900.0
"""A session unused for so long has no cache to go back to."""
AT_ONCE = 4
"""Requests of one session under way that still count as one conversation."""


@dataclass(slots=True, eq=False)
class Endpoint:
    """One base URL, and what is known about it by now."""

    url: str
    in_flight: int = 0
    sessions: int = 0
    failures: int = 0
    """Connections that failed since the last answer."""
    pauses: int = 0
    """Times in a row that it was left, broken or busy."""
    left_until: float = 0.0
    """No request before this moment, by the clock of its `Endpoints`."""
    on_trial: bool = False
    """Whether one request is finding out if it is back."""
    last_heard: float = 0.0
    strikes: int = 0
    """Questions whether it is alive that stayed without an answer."""
    waits: set[asyncio.Timeout] = field(default_factory=set)
    """Of the requests under way: what ends them when it turns out to be dead."""


@dataclass(slots=True)
class _Stay:
    """A session on its endpoint."""

    endpoint: Endpoint
    in_flight: int = 0
    last_used: float = 0.0


@final
class Endpoints:
    """The endpoints of one model server, in one process. `server` is its name, for the log."""

    def __init__(
        self, urls: Sequence[str], *, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.all = tuple(Endpoint(url) for url in urls)
        self._server = server
        self._clock = clock
        self._stays: dict[str, _Stay] = {}
        """By session, the one used last at the end."""

    def home(self, session: str) -> Endpoint:
        """Where the session's next request goes. Raises `ModelError` when there is no endpoint."""
        found = self._choose(session, ())
        if found is None:
            raise ModelError(f"{self._server} has no endpoint yet", hint="its start() must set one")
        return found

    def enter(self, session: str, tried: Collection[Endpoint] = ()) -> Endpoint | None:
        """Where a request of the session goes now, which is counted there until `leave`.

        None when all that is worth trying is among `tried`.
        """
        endpoint = self._choose(session, tried)
        if endpoint is None:
            return None
        endpoint.in_flight += 1
        if endpoint.failures:
            endpoint.on_trial = True
        if stay := self._stays.get(session):
            stay.in_flight += 1
        return endpoint

    def leave(self, session: str, endpoint: Endpoint) -> None:
        """The request that `enter` counted has ended, however it did."""
        endpoint.in_flight -= 1
        endpoint.on_trial = False
        if stay := self._stays.get(session):
            stay.in_flight -= 1

    def answered(self, endpoint: Endpoint) -> None:
        """It gave an answer: whatever was wrong is over."""
        endpoint.last_heard = self._clock()
        endpoint.strikes = 0
        if endpoint.failures and len(self.all) > 1:
            logger.warning("%s: %s answers again", self._server, endpoint.url)
        endpoint.failures = endpoint.pauses = 0
        endpoint.left_until = 0.0

    def lost(self, endpoint: Endpoint, why: str) -> None:
        """No connection, or one that broke: leave it, and say so once."""
        if not endpoint.failures and len(self.all) > 1:
            # Before it is marked, as its sessions move one by one.
            logger.warning(
                "%s: %s is left (%s); its %d sessions move to %s",
                self._server,
                endpoint.url,
                why,
                endpoint.sessions,
                self._others(endpoint),
            )
        endpoint.failures += 1
        self._pause(endpoint, None)

    def busy(self, endpoint: Endpoint, asked_s: float | None) -> None:
        """It is there and cannot take more: leave it for as long as it asks."""
        endpoint.last_heard = self._clock()
        endpoint.strikes = 0
        self._pause(endpoint, asked_s)

    def silent(self, endpoint: Endpoint, *, since_s: float) -> bool:
        """Whether requests wait there and nothing was heard from it for `since_s`."""
        return endpoint.in_flight > 0 and self._clock() - endpoint.last_heard > since_s

    def _pause(self, endpoint: Endpoint, asked_s: float | None) -> None:
        now = self._clock()
        if now < endpoint.left_until and asked_s is None:
            return  # one of many requests that found the same
        own = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**endpoint.pauses)
        endpoint.pauses = min(endpoint.pauses + 1, 10)
        endpoint.left_until = now + (own if asked_s is None else max(asked_s, 0.1))

    def _others(self, endpoint: Endpoint) -> str:
        others = [other.url for other in self.all if other is not endpoint and not other.failures]
        return ", ".join(others) or "none, as no other one answers"

    def _choose(self, session: str, tried: Collection[Endpoint]) -> Endpoint | None:
        if len(self.all) == 1:
            return None if tried else self.all[0]
        now = self._clock()
        stay = self._stays.get(session)
        if stay is not None and stay.endpoint not in tried and self._is_open(stay.endpoint, now):
            if stay.in_flight < AT_ONCE:
                self._renew(session, stay, now)
                return stay.endpoint
            return self._least_loaded(tried, now)
        found = self._least_loaded(tried, now)
        if found is None and not tried and self.all:
            found = min(self.all, key=lambda endpoint: endpoint.left_until)
        if found is not None:
            self._settle(session, stay, found, now)
        return found

    def _is_open(self, endpoint: Endpoint, now: float) -> bool:
        return now >= endpoint.left_until and not (endpoint.failures and endpoint.on_trial)

    def _least_loaded(self, tried: Collection[Endpoint], now: float) -> Endpoint | None:
        fit = [each for each in self.all if each not in tried and self._is_open(each, now)]
        return min(fit, key=lambda each: (each.in_flight, each.sessions), default=None)

    def _renew(self, session: str, stay: _Stay, now: float) -> None:
        stay.last_used = now
        # To the end, so that the ones longest unused are at the beginning.
        self._stays[session] = self._stays.pop(session)

    def _settle(self, session: str, stay: _Stay | None, endpoint: Endpoint, now: float) -> None:
        if stay is None:
            self._forget_old(now)
            stay = self._stays[session] = _Stay(endpoint)
        else:
            stay.endpoint.sessions -= 1
            stay.endpoint = endpoint
        endpoint.sessions += 1
        self._renew(session, stay, now)

    def _forget_old(self, now: float) -> None:
        while self._stays:
            session, oldest = next(iter(self._stays.items()))
            if now - oldest.last_used < FORGOTTEN_AFTER_S:
                return
            if oldest.in_flight:
                self._renew(session, oldest, now)
                return
            oldest.endpoint.sessions -= 1
            del self._stays[session]
