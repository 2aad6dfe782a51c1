"""`Endpoints`: chooses the endpoint of a model server for each request. It sends nothing itself.

Rules:

- A session stays on its endpoint, whose cache contains the beginning of the conversation.
- A new session goes to the working endpoint with the fewest requests under way.
- An endpoint whose connections fail is avoided. Its sessions move to other endpoints at their
  next request, and stay there. After a pause, which doubles up to 30 s, one request tries the
  endpoint again; other requests follow when it has answered.
- A busy endpoint (429, 503) is avoided for as long as it asks. An endpoint that answered 500
  several times in a row is avoided for a pause. Meanwhile its sessions use another endpoint as
  guests. Afterwards they return, because its cache contains their conversation.
- When all endpoints are avoided, requests go to the one whose pause ends first.
- A session with many concurrent requests is not one conversation (for example, a client that
  keeps cookies): its requests beyond `AT_ONCE` go to the least loaded endpoint.
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
"""Seconds after which an unused session is forgotten: its conversation is no longer in any cache.
"""
ERRORS_IN_A_ROW = 3
"""The number of consecutive answers of status 500 after which an endpoint is avoided for a pause.
One or two may be caused by the requests."""
AT_ONCE = 4
"""The maximum number of concurrent requests of one session that still count as one conversation."""


@dataclass(slots=True, eq=False)
class ProviderEndpoint:
    """One endpoint: its base URL and its current state."""

    url: str
    in_flight: int = 0
    sessions: int = 0
    failures: int = 0
    """The number of failed connections since the last answer."""
    errors: int = 0
    """The number of consecutive answers of status 500."""
    pauses: int = 0
    """The number of consecutive pauses, after broken connections, errors or busy answers."""
    left_until: float = 0.0
    """The time until which the endpoint gets no requests, by the clock of `Endpoints`."""
    on_trial: bool = False
    """Whether one request is testing if the failed endpoint works again."""
    last_heard: float = 0.0
    strikes: int = 0
    """The number of consecutive liveness checks without an answer."""
    waits: set[asyncio.Timeout] = field(default_factory=set)
    """The timeouts of the requests under way. They are triggered when the endpoint turns out to be
    dead."""
    told: set[str] = field(default_factory=set)
    """The reasons for which the endpoint was avoided for a while and which were already logged."""


@dataclass(slots=True)
class _Stay:
    """The endpoint that a session uses."""

    endpoint: ProviderEndpoint
    host: ProviderEndpoint | None = None
    """The other endpoint that serves the session while its own is busy. It stays the same, for its
    cache."""
    in_flight: int = 0
    last_used: float = 0.0


@final
class Endpoints:
    """The endpoints of one model server, in one process. `server`: the model server's name, for the
    log.
    """

    def __init__(
        self, urls: Sequence[str], *, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.all = tuple(ProviderEndpoint(url) for url in urls)
        self._server = server
        self._clock = clock
        self._stays: OrderedDict[str, _Stay] = OrderedDict()
        """By session, the one used last at the end."""

    def home(self, session: str) -> ProviderEndpoint:
        """Return the endpoint of the session's next request. Raises `ModelError`: there is no
        endpoint.
        """
        endpoint = self._choose(session, ())
        if endpoint is None:
            raise ModelError(
                f"{self._server} has no endpoint yet",
                hint="the start() of this model server must set an endpoint",
            )
        return endpoint

    def enter(
        self, session: str, tried: Collection[ProviderEndpoint] = ()
    ) -> ProviderEndpoint | None:
        """Choose the endpoint for a request of the session, and count the request there until
        `leave`.

        `tried`: endpoints to skip. Returns None when no endpoint outside `tried` is worth a try.
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
        """Stop counting a request that `enter` counted; it has ended, with or without success."""
        endpoint.in_flight -= 1
        endpoint.on_trial = False
        if stay := self._stays.get(session):
            stay.in_flight -= 1

    def answered(self, endpoint: ProviderEndpoint) -> None:
        """Record that the endpoint answered. Its failures are forgotten; a pause that it asked for
        stays.
        """
        self._heard(endpoint)
        if endpoint.failures:
            if len(self.all) > 1:
                logger.warning("%s: %s answers again", self._server, endpoint.url)
            endpoint.left_until = 0.0
        endpoint.failures = endpoint.errors = endpoint.pauses = 0

    def lost(self, endpoint: ProviderEndpoint, why: str) -> None:
        """Record a connection that failed or broke: avoid the endpoint, and log it once."""
        if not endpoint.failures and len(self.all) > 1:
            # Before it is marked, as its sessions move one by one.
            logger.warning(
                "%s: endpoint %s is not used any more (%s); its %d sessions move to %s",
                self._server,
                endpoint.url,
                why,
                endpoint.sessions,
                self._others(endpoint),
            )
        endpoint.failures += 1
        self._pause(endpoint, None)

    def busy(self, endpoint: ProviderEndpoint, asked_s: float | None, status: int = 429) -> None:
        """Record that the endpoint is overloaded: avoid it for `asked_s` seconds, or for the usual
        pause if None.
        """
        self._heard(endpoint)
        self._pause(endpoint, asked_s)
        self._tell_of_guests(endpoint, f"it is busy, status {status}")

    def broken(self, endpoint: ProviderEndpoint) -> None:
        """Record an answer of status 500. After `ERRORS_IN_A_ROW` of them, avoid the endpoint for a
        pause.
        """
        self._heard(endpoint)
        endpoint.errors += 1
        if endpoint.errors >= ERRORS_IN_A_ROW:
            self._pause(endpoint, None)
            self._tell_of_guests(endpoint, f"{ERRORS_IN_A_ROW} answers of status 500 in a row")

    def soonest_s(self) -> float:
        """Return the seconds until the first endpoint accepts requests again; 0 when one does now."""
        return max(0.0, min(endpoint.left_until for endpoint in self.all) - self._clock())

    def silent(self, endpoint: ProviderEndpoint, *, since_s: float) -> bool:
        """Whether requests wait at the endpoint and it has sent nothing for `since_s` seconds."""
        return endpoint.in_flight > 0 and self._clock() - endpoint.last_heard > since_s

    def _heard(self, endpoint: ProviderEndpoint) -> None:
        endpoint.last_heard = self._clock()
        endpoint.strikes = 0

    def _tell_of_guests(self, endpoint: ProviderEndpoint, why: str) -> None:
        if len(self.all) == 1 or why in endpoint.told:
            return
        endpoint.told.add(why)
        logger.warning(
            "%s: endpoint %s is not used for a while (%s); its %d sessions go to %s meanwhile "
            "(logged once)",
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
        return ", ".join(others) or "no other endpoint, as none answers"

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
        """Return the least loaded usable endpoint outside `tried`.

        When none is usable: the endpoint whose pause ends first if `tried` is empty, else None.
        """
        if (free_endpoint := self._least_loaded(tried, now)) is not None or tried:
            return free_endpoint
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
