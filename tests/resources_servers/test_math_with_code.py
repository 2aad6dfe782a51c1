"""Mathematics with an interpreter: a session's own, gone with it; graded as `math_with_judge`.

Real processes, without isolation where this machine has none: what isolates is tested in
`tests/sandbox`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from verifying import (
    PARAMS,
    answered,
    called,
    example_rows,
    post_verify,
    recorded,
    recorded_results,
    response,
    said,
    verify,
)

from palestra.config import config_from_tree
from palestra.errors import ConfigError
from palestra.fleet import assembled
from palestra.resources_servers.math_with_code.app import MathWithCodeConfig, MathWithCodeServer
from palestra.sandbox import SandboxSettings
from palestra.schema import VerifyResponse, encode_json
from palestra.server import ResourcesServer
from palestra.transport import HttpClient, Peer, ServerClient, call_asgi

ROW = {"expected_result": "1033", "responses_create_params": PARAMS}


def server_with(**settings: Any) -> MathWithCodeServer:
    given = {"sandbox": SandboxSettings(allow_process=True), "libraries": (), **settings}
    return MathWithCodeServer(
        config=MathWithCodeConfig(name="under_test", **given),
        server_client=ServerClient({}, HttpClient()),
    )


@asynccontextmanager
async def opened(server: MathWithCodeServer) -> AsyncIterator[Callable[[], Peer]]:
    """A started server; each call gives somebody with a session of their own."""
    async with assembled(config_from_tree({}), (), {"under_test": server}) as assembly:
        yield lambda: assembly.client.peer("under_test")


def during(
    server: MathWithCodeServer, story: Callable[[Callable[[], Peer]], Awaitable[Any]]
) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(50), opened(server) as peers:
            return await story(peers)

    return asyncio.run(main())


async def ran(peer: Peer, code: str) -> dict[str, Any]:
    answer = json.loads(await peer.call_tool("execute_python", {"code": code}))
    assert answer.keys() == {"stdout", "stderr", "result"}
    return dict(answer)


def test_a_call_answers_as_the_recorded_ones_did() -> None:
    items = [
        item
        for result in recorded_results("math_with_code")
        for item in result["response"]["output"]
    ]
    codes = [json.loads(item["arguments"])["code"] for item in items if "arguments" in item]
    outputs = [item["output"] for item in items if item["type"] == "function_call_output"]

    async def story(peers: Callable[[], Peer]) -> list[str]:
        return [await peers().call_tool("execute_python", {"code": code}) for code in codes]

    assert during(server_with(), story) == outputs != []


def test_variables_stay_within_a_session_and_are_no_other_sessions() -> None:
    async def story(peers: Callable[[], Peer]) -> list[dict[str, Any]]:
        one, other = peers(), peers()
        await ran(one, "x = 20")
        return [await ran(one, "print('é', x)\nx + 1"), await ran(other, "x")]

    mine, theirs = during(server_with(), story)

    assert mine == {"stdout": "é 20\n", "stderr": "", "result": "21"}
    assert theirs["stderr"].endswith("NameError: name 'x' is not defined\n")


@pytest.mark.slow
def test_the_interpreter_ends_with_its_session() -> None:
    server = server_with()

    async def story(peers: Callable[[], Peer]) -> tuple[int, float]:
        peer = peers()
        await ran(peer, "x = 1")
        alive = len(server._interpreters)
        body = {**ROW, "response": response(said(r"\boxed{1033}"))}
        reward = (await peer.call("/verify", body, VerifyResponse)).reward
        await asyncio.gather(*server._ending)
        assert len(server._interpreters) == 0
        return alive, reward

    assert during(server, story) == (1, 1.0)


def test_a_cell_that_kills_its_interpreter_is_told_and_the_next_begins_anew() -> None:
    async def story(peers: Callable[[], Peer]) -> list[dict[str, Any]]:
        peer = peers()
        return [await ran(peer, code) for code in ("x = 1", "import os; os._exit(3)", "1 + 1")]

    _, killed, after = during(server_with(), story)

    assert "The interpreter was restarted" in killed["stderr"]
    assert after == {"stdout": "", "stderr": "", "result": "2"}


@pytest.mark.slow
def test_a_cell_without_an_end_is_stopped_and_leaves_its_variables() -> None:
    async def story(peers: Callable[[], Peer]) -> list[dict[str, Any]]:
        peer = peers()
        return [await ran(peer, code) for code in ("x = 7", "while True: pass", "x")]

    _, stopped, after = during(server_with(cell_cpu_s=0.5), story)

    assert "stopped after 0.5 s of CPU time" in stopped["stderr"]
    assert after["result"] == "7"


def test_arguments_that_do_not_fit_are_the_models_to_read() -> None:
    async def story(peers: Callable[[], Peer]) -> str:
        return await peers().call_tool("execute_python", {"program": "1"})

    assert "code" in during(server_with(), story)


@pytest.mark.slow
def test_stopping_the_server_ends_what_still_computes() -> None:
    async def story(peers: Callable[[], Peer]) -> None:
        asyncio.get_running_loop().create_task(ran(peers(), "import time; time.sleep(40)"))
        while not len(server._interpreters):  # noqa: ASYNC110  # nothing tells when one begins
            await asyncio.sleep(0)

    server = server_with(cell_wall_s=45.0)

    during(server, story)

    assert not server._ending


def test_without_a_sandbox_the_server_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    server = server_with(sandbox=SandboxSettings(backend="bubblewrap"))

    with pytest.raises(ConfigError, match="there is no sandbox for untrusted code") as refused:
        asyncio.run(server.start())

    assert "apt-get install bubblewrap" in refused.value.hint


def test_promised_libraries_that_are_missing_are_named_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(peers: Callable[[], Peer]) -> None:
        del peers

    with caplog.at_level(logging.WARNING, "palestra.math_with_code"):
        during(server_with(libraries=("json", "no_such_library")), story)

    assert "cannot import no_such_library, which" in caplog.text


@pytest.fixture(scope="module")
def server() -> Any:
    server = server_with()
    yield server
    asyncio.run(server.stop())


@pytest.mark.slow
def test_recorded_rollouts_are_graded_as_they_were_with_their_tasks(
    server: ResourcesServer,
) -> None:
    for row, result in recorded("math_with_code"):
        ours = verify(server, row, *result["response"]["output"])

        reported = ("reward", "extracted_answer", "accuracy")
        assert {name: ours[name] for name in reported} == {name: result[name] for name in reported}


@pytest.mark.parametrize(("row", "status"), [({"expected_result": "5"}, 200), ({}, 422)])
def test_a_response_that_brings_its_own_expected_answer_decides_nothing(
    server: ResourcesServer, row: dict[str, Any], status: int
) -> None:
    brought = {**response(said(r"\boxed{6}")), "expected_answer": "6"}
    sent = {"responses_create_params": PARAMS, **row, "response": brought}

    reply = asyncio.run(call_asgi(server.asgi_app(), "POST", "/verify", body=encode_json(sent)))

    assert reply.status == status
    assert orjson.loads(reply.body).get("reward", 0.0) == 0.0


@pytest.mark.parametrize("name", ["expected_result", "expected_answer"])
def test_the_expected_answer_goes_by_two_names(server: ResourcesServer, name: str) -> None:
    assert verify(server, {name: r"\frac12"}, said(r"\boxed{0.5}"))["reward"] == 1.0


def test_the_interpreters_output_is_no_answer(server: ResourcesServer) -> None:
    calls = called("execute_python", '{"code": "1033"}'), answered('{"result": "1033"}')

    result = verify(server, ROW, said("Let me see."), *calls)

    assert (result["reward"], result["accuracy"]) == (0.0, False)


def test_a_row_that_says_nothing_of_its_answer_is_refused(server: ResourcesServer) -> None:
    status, body = post_verify(server, {}, said("5"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert "expected_result" in str(body)


def test_the_example_rows_own_answers_are_right(server: ResourcesServer) -> None:
    for row in example_rows("math_with_code"):
        result = verify(server, row, said(rf"\boxed{{{row['expected_result']}}}"))

        assert result["reward"] == 1.0
