"""Waiting for a server: until it is ready, known to be wrong, or time is up."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from palestra.cluster.plan import Probe
from palestra.cluster.supervisor.probe import (
    BadProbe,
    ProbeAnswer,
    ProbeVerdict,
    Waited,
    ask,
    check,
    wait_ready,
)

SPEC = Probe("/v1/models", 200, "wanted", 10.0, 2.0, 1.0)
NOT_YET = ProbeAnswer(None, "no answer (refused)")
READY = ProbeAnswer(ProbeVerdict.READY, "it serves wanted")


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def waiting(
    answers: Callable[[], ProbeAnswer],
    spec: Probe = SPEC,
    *,
    died: Callable[[], str] = lambda: "",
    said: list[str] | None = None,
    clock: Clock | None = None,
) -> Waited:
    time = clock or Clock()
    say = said.append if said is not None else lambda _: None
    return wait_ready(answers, spec, died=died, report=say, clock=time, sleep=time.sleep)


def test_it_is_ready_once_it_answers_as_expected() -> None:
    answers = iter([NOT_YET, NOT_YET, READY])
    waited = waiting(lambda: next(answers))
    assert (waited.verdict, round(waited.elapsed_s)) == (ProbeVerdict.READY, 2)


def test_the_total_deadline_holds_and_says_what_came_last() -> None:
    waited = waiting(lambda: NOT_YET)
    assert waited.verdict is ProbeVerdict.TIMEOUT
    assert waited.text == "not ready within 10 s: no answer (refused)"
    assert 10 <= waited.elapsed_s < 10.5


def test_a_process_that_died_is_not_waited_for() -> None:
    told = itertools.chain(["", "", ""], itertools.repeat("server exited with 0"))
    waited = waiting(lambda: NOT_YET, replace(SPEC, interval_s=60.0), died=lambda: next(told))
    assert (waited.verdict, waited.text) == (ProbeVerdict.DIED, "server exited with 0")
    assert waited.elapsed_s < 2


@pytest.mark.parametrize("interval_s", [1, 60, 61, 3600])
def test_every_interval_is_kept_to_and_progress_is_told_by_elapsed_time(interval_s: float) -> None:
    clock, asked, said = Clock(), [], list[str]()

    def attempt() -> ProbeAnswer:
        asked.append(clock.now)
        return NOT_YET

    spec = replace(SPEC, interval_s=interval_s, deadline_s=7300.0)
    check(spec)
    waiting(attempt, spec, said=said, clock=clock)
    gaps = [b - a for a, b in itertools.pairwise(asked)]
    assert all(gap == pytest.approx(interval_s, abs=0.3) for gap in gaps)
    assert len(said) == pytest.approx(7300 / max(60, interval_s), abs=2)
    assert said[0].startswith("waiting for ")


@pytest.mark.parametrize("value", [0, -1, float("nan"), "5", None])
def test_times_that_cannot_be_waited_for_are_refused(value: float) -> None:
    with pytest.raises(BadProbe, match="interval_s must be a number of seconds above 0"):
        check(replace(SPEC, interval_s=value))


def test_each_way_to_end_has_an_exit_code_of_its_own() -> None:
    codes = [verdict.value for verdict in ProbeVerdict]
    assert len(set(codes)) == len(codes)
    assert all(code > 2 for code in codes[1:])


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, tuple[int, object]]]]:
    """A server and what it answers, by path."""
    answers: dict[str, tuple[int, object]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[self.path]
            if self.headers.get("Authorization") != "Bearer our-key":
                status, body = 401, "not you"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", answers
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, {"data": [{"id": "other"}, {"id": "wanted"}]}, ProbeVerdict.READY),
        (200, {"data": [{"id": "other"}]}, ProbeVerdict.WRONG_MODEL),
        (200, {"data": []}, None),
        (200, ["not return a list"], None),
        (503, {}, None),
        (403, {}, ProbeVerdict.AUTH_REFUSED),
    ],
)
def test_an_answer_is_judged_by_its_status_and_by_the_models_in_it(
    server: tuple[str, dict[str, tuple[int, object]]],
    status: int,
    body: object,
    verdict: ProbeVerdict | None,
) -> None:
    url, answers = server
    answers["/v1/models"] = (status, body)
    assert ask(url, SPEC, "our-key").verdict is verdict


def test_a_server_that_does_not_take_our_key_is_not_ours(
    server: tuple[str, dict[str, tuple[int, object]]],
) -> None:
    url, answers = server
    answers["/v1/models"] = (200, {"data": [{"id": "wanted"}]})
    assert ask(url, SPEC, "the key of another job").verdict is ProbeVerdict.AUTH_REFUSED


def test_nobody_there_is_worth_waiting_for() -> None:
    answer = ask("http://127.0.0.1:9", SPEC, "our-key")
    assert (answer.verdict, answer.text[:9]) == (None, "no answer")
