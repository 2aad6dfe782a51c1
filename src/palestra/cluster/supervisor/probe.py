"""Whether a server is ready: asked until it is, it is known to be wrong, or time is up."""

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
"""Progress is told once in so long, whatever the interval between attempts."""
BODY_BYTES = 1 << 20


class ProbeVerdict(Enum):
    """How waiting ended; the value is the exit code of the job that it ended."""

    READY = 0
    TIMEOUT = 11
    DIED = 12
    WRONG_MODEL = 13
    AUTH_REFUSED = 14
    STOPPED = 15


class BadProbe(ValueError):
    """A probe that could not work."""


@dataclass(frozen=True)
class ProbeAnswer:
    """One attempt: `verdict` is None while waiting may help; `text` says what came."""

    verdict: ProbeVerdict | None
    text: str


@dataclass(frozen=True)
class Waited:
    """How waiting ended, after how long."""

    verdict: ProbeVerdict
    text: str
    elapsed_s: float

    @property
    def ready(self) -> bool:
        return self.verdict is ProbeVerdict.READY


def check(asked: Probe) -> None:
    """Raise BadProbe unless its times can be waited for."""
    for name in ("interval_s", "attempt_timeout_s", "deadline_s"):
        value = getattr(asked, name)
        if (
            not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9
        ):  # Python 3.8
            raise BadProbe(f"probe.{name} must be a number of seconds above 0, not {value!r}")
    if not asked.path.startswith("/"):
        raise BadProbe(f"probe.path must begin with /, not {asked.path!r}")


def ask(base_url: str, asked: Probe, key: str) -> ProbeAnswer:
    """One attempt, which takes `attempt_timeout_s` at most."""
    request = urllib.request.Request(base_url + asked.path)  # noqa: S310  # http, as we built it
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    deadline = time.monotonic() + asked.attempt_timeout_s
    # Not through a proxy of the site: the server is a node of this job.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=asked.attempt_timeout_s) as reply:
            status, body = reply.status, _body(reply, deadline)
    except urllib.error.HTTPError as error:
        status, body = error.code, b""
        error.close()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return ProbeAnswer(None, f"no answer ({reason})")
    if status in {401, 403} and asked.expect_status not in {401, 403}:
        return ProbeAnswer(
            ProbeVerdict.AUTH_REFUSED, f"it answers {status}: it does not take our key"
        )
    if status != asked.expect_status:
        return ProbeAnswer(None, f"it answers {status}, not {asked.expect_status}")
    return _model(body, asked)


def _body(reply: Any, deadline: float) -> bytes:
    """The body, unless it drips in more slowly than an attempt may take."""
    body = b""
    while len(body) < BODY_BYTES:
        if time.monotonic() > deadline:
            raise TimeoutError("its answer did not end in time")
        block = reply.read1(1 << 16)
        if not block:
            break
        body += block
    return body


def _model(body: bytes, asked: Probe) -> ProbeAnswer:
    if not asked.expect_model:
        return ProbeAnswer(ProbeVerdict.READY, "it answers")
    try:
        models = [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return ProbeAnswer(None, f"{asked.path} gives no list of models")
    if asked.expect_model in models:
        return ProbeAnswer(ProbeVerdict.READY, f"it serves {asked.expect_model}")
    if not models:
        return ProbeAnswer(None, "it serves no model yet")
    return ProbeAnswer(
        ProbeVerdict.WRONG_MODEL, f"it serves {', '.join(models)}, and not {asked.expect_model}"
    )


def wait_ready(
    attempt: Callable[[], ProbeAnswer],
    asked: Probe,
    *,
    died: Callable[[], str],
    stop: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Waited:
    """Attempts until one decides; waiting never outlives `deadline_s`.

    `died`: how the watched process has ended, empty while it runs. `stop`: whether nobody waits
    any more. Between attempts both are looked at often, however long the interval is.
    """
    begun = told = clock()
    last = "not asked yet"
    while True:
        ended = died()
        if ended:
            return Waited(ProbeVerdict.DIED, ended, clock() - begun)
        if stop():
            return Waited(ProbeVerdict.STOPPED, last, clock() - begun)
        answer = attempt()
        last = answer.text
        if answer.verdict is not None:
            return Waited(answer.verdict, last, clock() - begun)
        next_attempt = min(clock() + asked.interval_s, begun + asked.deadline_s)
        while clock() < next_attempt and not died() and not stop():
            sleep(min(0.2, max(0.0, next_attempt - clock())))
        now = clock()
        if now - begun >= asked.deadline_s and not died():
            text = f"not ready within {asked.deadline_s:g} s: {last}"
            return Waited(ProbeVerdict.TIMEOUT, text, now - begun)
        if now - told >= SAY_EVERY_S:
            told = now
            say(f"waiting for {now - begun:.0f} s of {asked.deadline_s:g}: {last}")
