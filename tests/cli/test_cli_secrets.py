"""Secrets that an endpoint quotes back: nothing that a run leaves or says shows one of them.

The same runs tell what the debug flag adds: every failing request, at every boundary.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, Done, World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

KEY = "sk-first-key-of-three"
HEADER_KEY = 'sk-"zweiter"/key\\of-three'
VARIABLE_KEY = "third-key-of-three"
DEBUG = "++global_aiohttp_client_request_debug=True"
COLLECT = (
    f"+agent_name={AGENT}",
    f"+input_jsonl_fpath={TASKS}",
    "+output_jsonl_fpath=out/rollouts.jsonl",
    "++max_attempts=1",
    f"+config_paths=[{MULTI_STEP},{OPENAI}]",
    "++nemo_gym_log_dir=logs",
)
ENV_YAML = {
    "policy_api_key": KEY,
    "policy_model_name": "tiny",
    "policy_model": {
        "responses_api_models": {
            "openai_model": {
                "default_headers": {"X-Api-Key": HEADER_KEY, "X-Team": "${oc.env:TEAM_TOKEN}"}
            }
        }
    },
}


@contextlib.contextmanager
def quoting_endpoint(statuses: list[int]) -> Iterator[str]:
    """An endpoint that refuses with these statuses in turn, quoting every header it was sent."""
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal asked
            self.rfile.read(int(self.headers["content-length"]))
            asked += 1
            sent = dict(self.headers.items())
            said = f"no: {sent['authorization']}, {sent}, {json.dumps(sent)}"
            self._answer(statuses[asked % len(statuses)], {"error": {"message": said}, **sent})

        def do_GET(self) -> None:
            self._answer(200, {"data": [{"id": "tiny"}]})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            raw = json.dumps(body).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def collected(world: World, url: str, *overrides: str, fleet: bool) -> tuple[Done, str]:
    """A collection over the endpoint, and all that it and its fleet printed or wrote."""
    settings = {**ENV_YAML, "policy_base_url": url}
    config = world.write("env.yaml", json.dumps(settings))
    logs: list[Path] = []
    if fleet:
        started = world.start("ng_run", *COLLECT[-2:], world.head, *overrides)
        started.until("servers ready!")
        logs.append(started.log)
    done = world.run("ng_collect_rollouts", *COLLECT, world.head, *overrides)
    files = [path for path in world.folder.rglob("*") if path.is_file() and path != config]
    return done, "\n".join([done.out, done.err, *(path.read_text() for path in files + logs)])


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("fleet", [False, True])
@pytest.mark.parametrize("statuses", [[401], [400, 500]])
def test_no_secret_is_left_anywhere_by_an_endpoint_that_quotes_them(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    statuses: list[int],
    *,
    fleet: bool,
    debug: bool,
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", VARIABLE_KEY)
    overrides = [DEBUG] if debug else []
    with quoting_endpoint(statuses) as url:
        done, text = collected(world, url, *overrides, fleet=fleet)

    assert done.code == (2 if statuses == [401] else 1), done.err
    assert "no: Bearer ****" in text
    spellings = [KEY, VARIABLE_KEY, HEADER_KEY, json.dumps(HEADER_KEY)[1:-1], "zweiter"]
    assert [key for key in spellings if key in text] == []
    assert "changed the request" not in text
    said = {f"model to endpoint {status // 100}xx" for status in statuses}
    assert boundaries(text, url) == ({*said, "agent to model", "/run"} if debug else set())


def boundaries(text: str, url: str) -> set[str]:
    """Between which two parts failing requests were logged, with all that belongs there."""
    found = set()
    for where, status, _row, _headers in re.findall(
        r'request failed: Request info: POST (.*?) status=(\d+) row=(\{"task":.*?\}) headers=(\{.*?\}) '
        r"Request kwargs: \{.*\} Response content: .",
        text,
    ):
        if where.startswith(url):
            found.add(f"model to endpoint {status[0]}xx")
        else:
            found.add("agent to model" if where.endswith("/v1/responses") else where[-4:])
    return found


@pytest.mark.parametrize("fleet", [False, True])
def test_each_failed_run_is_one_line_of_the_debug_log(
    world: World, monkeypatch: pytest.MonkeyPatch, *, fleet: bool
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", VARIABLE_KEY)
    with quoting_endpoint([400]) as url:
        done, _ = collected(world, url, DEBUG, fleet=fleet)

    found = re.findall(
        r"\[rollout_collection\] /run failed status=400 row=(\{.*\})$", done.err, re.MULTILINE
    )
    assert sorted(json.loads(row)["_ng_task_index"] for row in found) == [0, 1, 2, 3, 4]
    assert {json.loads(row)["agent_name"] for row in found} == {AGENT}
    assert {json.loads(row)["_ng_rollout_index"] for row in found} == {0}
