"""Who may ask the viewer, and what every answer forbids the browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer_world import TOKEN, World, viewing

from listed_runs import answered, write_run
from palestra.viewer.access import Access, host_name, new_token


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    write_run(tmp_path / "a", [answered(0, 1.0)], requested=1)
    with viewing(tmp_path / "a", cache=tmp_path / "cache") as world:
        yield world


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7717", "localhost:9000", "[::1]:7717", "127.9.9.9", "LOCALHOST"]
)
def test_a_loopback_name_is_answered_through_any_port(world: World, host: str) -> None:
    assert world.ask("/api/session", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "0.0.0.0:7717", "", "10.0.0.1:7717", None]
)
def test_another_host_is_refused(world: World, host: str | None) -> None:
    assert world.ask("/api/session", host=host).status == 403
    assert world.ask("/", host=host).status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:7717", 200),
        ("http://127.0.0.1:7718", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_an_origin_is_that_of_the_host(world: World, origin: str, status: int) -> None:
    assert world.ask("/api/session", origin=origin).status == status


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)],
)
def test_other_sites_are_refused(world: World, site: str, status: int) -> None:
    assert world.ask("/api/session", sec_fetch_site=site).status == status


def test_another_site_may_open_the_page_and_embed_nothing(world: World) -> None:
    opening = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}

    assert world.ask("/", sec_fetch_dest="document", **opening).status == 200
    assert world.ask("/", sec_fetch_dest="iframe", **opening).status == 403
    assert world.ask("/api/runs", sec_fetch_dest="document", **opening).status == 403
    assert world.ask("/static/viewer.js", sec_fetch_site="cross-site").status == 403


@pytest.mark.parametrize(
    "value",
    [None, "Bearer wrong", "Bearer ", TOKEN, f"Basic {TOKEN}", "Bearer \xff", f"Bearer {TOKEN}x"],
)
def test_nothing_is_told_without_the_token(world: World, value: str | None) -> None:
    answer = world.ask("/api/runs", authorization=value)

    assert answer.status == 403
    assert world.run_id.encode() not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_answered(world: World, method: str) -> None:
    assert world.ask("/api/runs", method).status == 405


def test_head_is_answered(world: World) -> None:
    assert world.ask("/api/runs", "HEAD").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/../../etc/passwd",
        "/api/r/../../etc/passwd",
        "/api/r/..%2f..%2fetc/about",
        "/static/__init__.py",
    ],
)
def test_no_path_leads_to_a_file(world: World, path: str) -> None:
    answer = world.ask(path)

    assert answer.status == 404 or answer.headers["content-type"].startswith("text/html")
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/nothing", "/static/nothing.js"])
@pytest.mark.parametrize("token", [f"Bearer {TOKEN}", None])
def test_every_answer_has_the_safe_headers(world: World, path: str, token: str | None) -> None:
    headers = world.ask(path, authorization=token).headers

    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers


def test_an_allowed_host_is_answered() -> None:
    access = Access("t", frozenset({"box.example"}))

    headers = [("host", "box.example:80"), ("authorization", "Bearer t")]
    assert access.refusal("GET", "/api/runs", headers) is None


def test_two_hosts_are_none() -> None:
    headers = [("host", "localhost"), ("host", "localhost"), ("authorization", "Bearer t")]

    assert Access("t").refusal("GET", "/", headers) is not None


def test_a_token_is_new_at_each_start_and_has_128_bits() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 22  # characters of 6 bits


@pytest.mark.parametrize(
    ("host", "name"), [("[::1]:80", "::1"), ("::1", "::1"), ("A.b:80", "a.b"), ("a.b", "a.b")]
)
def test_the_name_of_a_host_is_without_its_port(host: str, name: str) -> None:
    assert host_name(host) == name
