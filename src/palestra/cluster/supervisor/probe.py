"""Wait until a server is ready, until waiting is known to be useless, or until the deadline."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from palestra.cluster.plan import Probe

SAY_EVERY_S = 60.0
"""The time between two progress reports, whatever the interval between attempts."""
BODY_BYTES = 1 << 20


class ProbeVerdict(Enum):
    """The result of waiting. The value is the exit code of the job if waiting ends it."""

    READY = 0
    TIMEOUT = 11
    DIED = 12
    WRONG_MODEL = 13
    AUTH_REFUSED = 14
    STOPPED = 15


class BadProbe(ValueError):
    """A probe with settings that cannot work."""


@dataclass(frozen=True)
class ProbeAnswer:
    """The result of one attempt. `verdict`: None while waiting may help. `text`: what the server
    answered.
    """

    verdict: ProbeVerdict | None
    text: str


@dataclass(frozen=True)
class Waited:
    """The result of waiting for a server, and how long it took."""

    verdict: ProbeVerdict
    text: str
    elapsed_s: float

    @property
    def ready(self) -> bool:
        return self.verdict is ProbeVerdict.READY


def check(probe: Probe) -> None:
    """Raise BadProbe when a time is not a positive number or the path does not begin with `/`."""
    for name in ("interval_s", "attempt_timeout_s", "deadline_s"):
        value = getattr(probe, name)
        if (
            not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9
        ):  # Python 3.8
            raise BadProbe(f"probe.{name} must be a number of seconds above 0, not {value!r}")
    if not probe.path.startswith("/"):
        raise BadProbe(f"probe.path must begin with /, not {probe.path!r}")


def ask(base_url: str, probe: Probe, key: str) -> ProbeAnswer:
    """Make one attempt, which takes at most `attempt_timeout_s`."""
    request = urllib.request.Request(base_url + probe.path)  # noqa: S310  # http, as we built it
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    deadline = time.monotonic() + probe.attempt_timeout_s
    # Not through a proxy of the site: the server is a node of this job.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=probe.attempt_timeout_s) as reply:
            status, body = reply.status, _body(reply, deadline)
    except urllib.error.HTTPError as error:
        status, body = error.code, b""
        error.close()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return ProbeAnswer(None, f"no answer ({reason})")
    if status in {401, 403} and probe.expect_status not in {401, 403}:
        return ProbeAnswer(
            ProbeVerdict.AUTH_REFUSED, f"it answers {status}: it rejects the API key of the job"
        )
    if status != probe.expect_status:
        return ProbeAnswer(None, f"it answers {status}, not {probe.expect_status}")
    return _model(body, probe)


def _body(reply: Any, deadline: float) -> bytes:
    """Read the response body. Raises TimeoutError: it does not end before `deadline`."""
    body = b""
    while len(body) < BODY_BYTES:
        if time.monotonic() > deadline:
            raise TimeoutError("its answer did not end in time")
        block = reply.read1(1 << 16)
        if not block:
            break
        body += block
    return body


def _model(body: bytes, probe: Probe) -> ProbeAnswer:
    if not probe.expect_model:
        return ProbeAnswer(ProbeVerdict.READY, "it answers")
    try:
        models = [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return ProbeAnswer(None, f"{probe.path} does not return a list of models")
    if probe.expect_model in models:
        return ProbeAnswer(ProbeVerdict.READY, f"it serves {probe.expect_model}")
    if not models:
        return ProbeAnswer(None, "it serves no model yet")
    return ProbeAnswer(
        ProbeVerdict.WRONG_MODEL, f"it serves {', '.join(models)}, and not {probe.expect_model}"
    )


def wait_ready(
    attempt: Callable[[], ProbeAnswer],
    probe: Probe,
    *,
    died: Callable[[], str],
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Waited:
    """Make attempts until one is decisive, for at most `deadline_s`.

    `died`: returns how the watched process ended, empty while it runs. `stop`: whether to stop
    waiting. Both are checked often between attempts, even when the interval is long.
    """
    begun_at = reported_at = clock()
    last = "not asked yet"
    while True:
        how_it_ended = died()
        if how_it_ended:
            return Waited(ProbeVerdict.DIED, how_it_ended, clock() - begun_at)
        if stop():
            return Waited(ProbeVerdict.STOPPED, last, clock() - begun_at)
        answer = attempt()
        last = answer.text
        if answer.verdict is not None:
            return Waited(answer.verdict, last, clock() - begun_at)
        next_attempt = min(clock() + probe.interval_s, begun_at + probe.deadline_s)
        while clock() < next_attempt and not died() and not stop():
            sleep(min(0.2, max(0.0, next_attempt - clock())))
        now = clock()
        if now - begun_at >= probe.deadline_s and not died():
            text = f"not ready within {probe.deadline_s:g} s: {last}"
            return Waited(ProbeVerdict.TIMEOUT, text, now - begun_at)
        if now - reported_at >= SAY_EVERY_S:
            reported_at = now
            report(f"waiting for {now - begun_at:.0f} s of {probe.deadline_s:g}: {last}")
