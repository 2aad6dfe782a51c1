"""`Endpoints`: which of several endpoints a request goes to. Decides only, and sends nothing.

Rules:

- A session stays on its endpoint, which has the beginning of the conversation in its cache.
- A new session goes where the fewest requests are under way, of those that answer.
- An endpoint whose connections fail is left: its sessions move to others at their next request,
  and stay there. After a pause, which doubles up to half a minute, one request tries it again; the
  others follow once that was answered.
- An endpoint that is busy (429, 503) is left for as long as it asks, and one that answered 500
  several times in a row for a pause: meanwhile its sessions are guests of another one, and then
  they go back to where the beginning of their conversation is.
- When all are left, requests try the one whose pause ends first.
- A session with many requests at once is no conversation (a client that keeps cookies, say): what
  is too much goes where there is room.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import final

from palestra.errors import ModelError

logger = logging.getLogger("palestra.models")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
FORGOTTEN_AFTER_S = 900.0
"""A session unused for so long has no cache to go back to."""
ERRORS_IN_A_ROW = 3
"""Answers of status 500, with none other between them, after which an endpoint is left for a
pause: one or two may be the requests' fault."""
AT_ONCE = 4
"""Requests of one session under way that still count as one conversation."""


@dataclass(slots=True, eq=False)
class ProviderEndpoint:
    """One base URL, and what is known about it by now."""

    url: str
    in_flight: int = 0
    sessions: int = 0
    failures: int = 0
    """Connections that failed since the last answer."""
    errors: int = 0
    """Answers of status 500 since the last other one."""
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
    told: set[str] = field(default_factory=set)
    """Why its sessions had to go elsewhere for a while, as far as that was said already."""


@dataclass(slots=True)
class _Stay:
    """A session on its endpoint."""

    endpoint: ProviderEndpoint
    host: ProviderEndpoint | None = None
    """Where it is a guest while its endpoint is busy: one and the same, for its cache too."""
    in_flight: int = 0
    last_used: float = 0.0


@final
class Endpoints:
    """The endpoints of one model server, in one process. `server` is its name, for the log."""

    def __init__(
        self, urls: Sequence[str], *, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.all = tuple(ProviderEndpoint(url) for url in urls)
        self._server = server
        self._clock = clock
        self._stays: OrderedDict[str, _Stay] = OrderedDict()
        """By session, the one used last at the end."""

    def home(self, session: str) -> ProviderEndpoint:
        """Where the session's next request goes. Raises `ModelError` when there is no endpoint."""
        endpoint = self._choose(session, ())
        if endpoint is None:
            raise ModelError(f"{self._server} has no endpoint yet", hint="its start() must set one")
        return endpoint

    def enter(
        self, session: str, tried: Collection[ProviderEndpoint] = ()
    ) -> ProviderEndpoint | None:
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

    def leave(self, session: str, endpoint: ProviderEndpoint) -> None:
        """The request that `enter` counted has ended, however it did."""
        endpoint.in_flight -= 1
        endpoint.on_trial = False
        if stay := self._stays.get(session):
            stay.in_flight -= 1

    def answered(self, endpoint: ProviderEndpoint) -> None:
        """It gave an answer: whatever was wrong is over, but for a pause that it asked for."""
        self._heard(endpoint)
        if endpoint.failures:
            if len(self.all) > 1:
                logger.warning("%s: %s answers again", self._server, endpoint.url)
            endpoint.left_until = 0.0
        endpoint.failures = endpoint.errors = endpoint.pauses = 0

    def lost(self, endpoint: ProviderEndpoint, why: str) -> None:
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

    def busy(self, endpoint: ProviderEndpoint, asked_s: float | None, status: int = 429) -> None:
        """It is there and cannot take more: leave it for as long as it asks."""
        self._heard(endpoint)
        self._pause(endpoint, asked_s)
        self._tell_of_guests(endpoint, f"it is busy, status {status}")

    def broken(self, endpoint: ProviderEndpoint) -> None:
        """It answered 500: leave it when it does nothing else."""
        self._heard(endpoint)
        endpoint.errors += 1
        if endpoint.errors >= ERRORS_IN_A_ROW:
            self._pause(endpoint, None)
            self._tell_of_guests(endpoint, f"{ERRORS_IN_A_ROW} answers of status 500 in a row")

    def soonest_s(self) -> float:
        """In how many seconds the first of them may be asked again; 0 when one may be now."""
        return max(0.0, min(endpoint.left_until for endpoint in self.all) - self._clock())

    def silent(self, endpoint: ProviderEndpoint, *, since_s: float) -> bool:
        """Whether requests wait there and nothing was heard from it for `since_s`."""
        return endpoint.in_flight > 0 and self._clock() - endpoint.last_heard > since_s

    def _heard(self, endpoint: ProviderEndpoint) -> None:
        endpoint.last_heard = self._clock()
        endpoint.strikes = 0

    def _tell_of_guests(self, endpoint: ProviderEndpoint, why: str) -> None:
        if len(self.all) == 1 or why in endpoint.told:
            return
        endpoint.told.add(why)
        logger.warning(
            "%s: %s is left for a while (%s); its %d sessions go to %s meanwhile (told once)",
            self._server,
            endpoint.url,
            why,
            endpoint.sessions,
            self._others(endpoint),
        )

    def _pause(self, endpoint: ProviderEndpoint, asked_s: float | None) -> None:
        now = self._clock()
        if now < endpoint.left_until and asked_s is None:
            return  # one of many requests that found the same
        own_pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**endpoint.pauses)
        endpoint.pauses = min(endpoint.pauses + 1, 10)
        endpoint.left_until = now + (own_pause_s if asked_s is None else max(asked_s, 0.1))

    def _others(self, endpoint: ProviderEndpoint) -> str:
        others = [
            other_endpoint.url
            for other_endpoint in self.all
            if other_endpoint is not endpoint and not other_endpoint.failures
        ]
        return ", ".join(others) or "none, as no other one answers"

    def _choose(self, session: str, tried: Collection[ProviderEndpoint]) -> ProviderEndpoint | None:
        if len(self.all) == 1:
            return None if tried else self.all[0]
        now = self._clock()
        stay = self._stays.get(session)
        if stay is None:
            return self._settle(session, self._anywhere(tried, now), now)
        self._renew(session, stay, now)
        if stay.in_flight >= AT_ONCE:
            return self._anywhere(tried, now)
        for settled in (stay.endpoint, stay.host):
            if settled is not None and settled not in tried and self._is_open(settled, now):
                return settled
        endpoint = self._anywhere(tried, now)
        if stay.endpoint.failures:
            return self._settle(session, endpoint, now)
        stay.host = endpoint
        return endpoint

    def _anywhere(self, tried: Collection[ProviderEndpoint], now: float) -> ProviderEndpoint | None:
        """Where there is most room, else the first to come back; where it was, no request goes."""
        if (found := self._least_loaded(tried, now)) is not None or tried:
            return found
        return min(self.all, key=lambda endpoint: endpoint.left_until, default=None)

    def _is_open(self, endpoint: ProviderEndpoint, now: float) -> bool:
        return now >= endpoint.left_until and not (endpoint.failures and endpoint.on_trial)

    def _least_loaded(
        self, tried: Collection[ProviderEndpoint], now: float
    ) -> ProviderEndpoint | None:
        fit = [
            endpoint
            for endpoint in self.all
            if endpoint not in tried and self._is_open(endpoint, now)
        ]
        return min(fit, key=lambda endpoint: (endpoint.in_flight, endpoint.sessions), default=None)

    def _renew(self, session: str, stay: _Stay, now: float) -> None:
        stay.last_used = now
        # To the end, so that the ones longest unused are at the beginning.
        self._stays.move_to_end(session)

    def _settle(
        self, session: str, endpoint: ProviderEndpoint | None, now: float
    ) -> ProviderEndpoint | None:
        if endpoint is None:
            return None
        if (stay := self._stays.get(session)) is None:
            self._forget_old(now)
            stay = self._stays[session] = _Stay(endpoint)
        else:
            stay.endpoint.sessions -= 1
            stay.endpoint, stay.host = endpoint, None
        endpoint.sessions += 1
        self._renew(session, stay, now)
        return endpoint

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
