"""Sessions: kept while they are used, in a cookie nobody else can write."""

import asyncio
import base64
import json
import time

import pytest
from itsdangerous import Signer

from author_servers import ask, server_of, turn
from palestra.errors import InfraError, from_body
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, Session
from palestra.server.boundary import SessionCookie
from palestra.server.sessions import SessionStore
from palestra.transport import CallContext, call_asgi, calling


def test_a_session_is_made_on_its_first_use_and_found_again() -> None:
    store = SessionStore()
    store.open("a").state["count"] = 1

    assert store.open("a").state == {"count": 1}
    assert store.open("b").state == {}
    assert len(store) == 2


def test_a_closed_session_is_forgotten_and_closing_it_again_is_fine() -> None:
    store = SessionStore()
    store.open("a").state["count"] = 1
    store.close("a")
    store.close("a")

    assert len(store) == 0
    assert store.open("a").state == {}


def test_what_a_session_holds_is_released_once_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    store, released = SessionStore(), []
    session = store.open("a")
    session.at_end(lambda: released.append("opened first"))
    session.at_end(lambda: 1 / 0)
    session.at_end(lambda: released.append("opened last"))
    store.close("a")
    store.close("a")

    assert released == ["opened last", "opened first"]
    assert "ZeroDivisionError" in caplog.text


def test_idle_sessions_are_swept_and_busy_ones_stay() -> None:
    store = SessionStore(idle_limit_s=0.05)
    left = store.open("left behind")
    while store.open("busy").last_used < left.last_used + 0.06:
        pass
    store.open("new")

    assert store.open("busy") is not None
    assert len(store) == 2


def test_an_idle_session_whose_rollout_has_time_left_stays() -> None:
    store = SessionStore(idle_limit_s=0.05)
    now = time.monotonic()
    for name, deadline in (("slow", now + 60), ("late", now + 0.01)):
        with calling(CallContext(deadline=deadline)):
            store.open(name).state["board"] = name
    while time.monotonic() < now + 0.07:
        pass
    store.open("new")

    assert len(store) == 2
    assert store.open("slow").state == {"board": "slow"}


def test_a_store_that_keeps_nothing_grows_by_nothing() -> None:
    store = SessionStore(keep=False)

    assert store.open("a").id == "a"
    assert len(store) == 0


COOKIE = SessionCookie("Env___env", "secret")


def header(cookie: SessionCookie, held: dict[str, str]) -> str:
    return cookie.write(held).split(";")[0]


def test_a_cookie_comes_back_as_it_was_written_among_others() -> None:
    sent = f"other=1; {header(COOKIE, {'session_id': 'ä1'})}; last=2"

    assert COOKIE.read(sent) == {"session_id": "ä1"}


@pytest.mark.parametrize("odd", ["foo=a b", "a@b=1", 'prefs={"a":1}', "alone", 'q="a', "ü=é"])
def test_an_odd_cookie_beside_ours_does_not_hide_the_session(odd: str) -> None:
    ours = header(COOKIE, {"session_id": "1"})

    assert COOKIE.read(f"{ours}; {odd}") == {"session_id": "1"}
    assert COOKIE.read(f"{odd}; {ours}") == {"session_id": "1"}


@pytest.mark.parametrize(
    "other",
    [
        SessionCookie("Env___env", "another secret"),
        SessionCookie("Env___other", "secret"),
    ],
)
def test_a_cookie_signed_by_somebody_else_is_no_cookie(other: SessionCookie) -> None:
    stolen = header(other, {"session_id": "1"}).replace(other.name, COOKIE.name)

    assert COOKIE.read(stolen) is None


def test_a_cookie_is_signed_as_itsdangerous_signs() -> None:
    payload, _, _ = header(COOKIE, {"session_id": "1"}).partition("=")[2].rpartition(".")
    signer = Signer(Signer("secret", salt="Env___env").derive_key(), key_derivation="none")

    assert header(COOKIE, {"session_id": "1"}) == f"Env___env={signer.sign(payload).decode()}"


def test_a_tampered_cookie_is_no_cookie() -> None:
    name, _, value = header(COOKIE, {"session_id": "mine"}).partition("=")
    payload, _, signature = value.rpartition(".")
    forged = base64.b64encode(json.dumps({"session_id": "yours"}).encode()).decode()

    assert COOKIE.read(f"{name}={payload}.{signature}") == {"session_id": "mine"}
    assert COOKIE.read(f"{name}={forged}.{signature}") is None
    assert COOKIE.read(f"{name}={payload}.{signature[:-1]}") is None
    assert COOKIE.read(f"{name}={payload}") is None
    assert COOKIE.read("") is None


class Naming(ResourcesServer):
    """Says which session it is in."""

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, 1.0, session=session.id)


FORGED = {"Naming___env": base64.b64encode(b'{"session_id": "yours"}').decode() + ".x"}


def test_a_session_of_an_earlier_process_of_the_server_is_lost() -> None:
    seeded = ask(server_of(Naming), "/seed_session", turn())
    reply = ask(server_of(Naming), "/verify", turn(), cookies=seeded.cookies)

    failure = from_body(json.loads(reply.body))
    assert isinstance(failure, InfraError)
    assert failure.retriable
    assert failure.message.startswith("env was restarted during this rollout")


class Matching(ResourcesServer):
    """Keeps nothing between two calls."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def test_a_verifier_without_state_takes_a_session_of_an_earlier_process() -> None:
    first = ask(server_of(Matching), "/verify", turn())
    reply = ask(server_of(Matching), "/verify", turn(), cookies=first.cookies)

    assert reply.status == 200
    assert "Matching___env" in reply.cookies


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
def test_a_tampered_cookie_gives_nobody_the_session_that_it_names(path: str) -> None:
    server = server_of(Naming)
    ask(server, path, turn(), cookies=FORGED)

    assert "yours" not in server.palestra_sessions._sessions


def test_a_rollout_begins_with_a_new_session_whatever_its_caller_had() -> None:
    reply = ask(server_of(Naming), "/seed_session", turn(), cookies=FORGED)

    assert reply.status == 200
    assert "Naming___env" in reply.cookies


@pytest.mark.parametrize("name", ["env", "my env; path=/", "среда", 'a"b,c'])
def test_an_instance_of_any_name_keeps_its_session(name: str) -> None:
    app = server_of(Naming, name).asgi_app()

    async def status_twice() -> tuple[object, object]:
        first = await call_asgi(app, "GET", "/")
        second = await call_asgi(app, "GET", "/", cookies=first.cookies)
        return first.cookies, second.cookies

    given, given_again = asyncio.run(status_twice())

    assert given
    assert given_again == {}
