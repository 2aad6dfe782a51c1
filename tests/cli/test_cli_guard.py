"""Authors' code that holds the process of a command: the command's guard ends it in order."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_world import MULTI_STEP, OPENAI, SCRIPTS, TASKS, Done, FakeEndpoint, Running, World, until

pytestmark = [pytest.mark.slow, pytest.mark.alone]

FILE = """
import ctypes
import re
import signal
import time
from pathlib import Path

from palestra.server import environment


def unstoppable():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        ctypes.PyDLL(None).pause()


@environment(data=[{{"q": str(n)}} for n in range(4)], prompt="{{q}}")
async def verify(answer: str, q: str) -> float:
    if q == "2":
        Path("in").touch()
        {body}
    return 1.0
"""
REGEX = 're.match(r"(a+)+$", "a" * 40 + "b")'
BODIES = {
    "regex": REGEX,
    "spin": "while True: pass",
    "sleep": "time.sleep(1e6)",
    "unstoppable": "unstoppable()",
}
TIMEOUT_S = 4


def command(world: World, fake: FakeEndpoint, body: str) -> list[str]:
    """An evaluation whose third task never comes back from `body`."""
    world.write("hang.py", FILE.format(body=body))
    return [
        *("eval", "hang.py", "--model", "openai:tiny", "--output", "r.jsonl", world.head),
        *fake.policy,
        *("--rollout-timeout", str(TIMEOUT_S), "--max-attempts", "2", "--progress", "plain"),
    ]


def test_a_guard_that_cannot_read_what_it_was_told_leaves_the_run_alone(
    world: World, fake: FakeEndpoint
) -> None:
    body = "__import__('palestra').system.current_pulse().note(b'{'); time.sleep(3)"

    done = world.run("palestra", *command(world, fake, body))

    assert done.code == 0
    assert "watching this command failed: JSONDecodeError" in done.err


def verifying(world: World, fake: FakeEndpoint, body: str = REGEX) -> Running:
    """That command, once the verifier does not come back."""
    running = world.start("palestra", *command(world, fake, body))
    until((world.folder / "in").exists, timeout_s=40)
    return running


def nobody_is_in(folder: Path) -> bool:
    """Whether no process works in this folder."""

    def is_there(process: Path) -> bool:
        try:
            return (process / "cwd").readlink() == folder
        except OSError:
            return False

    return not any(is_there(path) for path in Path("/proc").iterdir() if path.name.isdecimal())


def failures(world: World) -> list[tuple[int, str, int]]:
    return [
        (row["_ng_task_index"], row["_ng_failure_class"], row["attempt"])
        for row in world.rows("r_failures.jsonl")
    ]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_verifier_that_holds_the_process_ends_the_run_in_time(
    world: World, fake: FakeEndpoint, body: str
) -> None:
    running = verifying(world, fake, body)
    began = time.monotonic()

    code = running.ended(timeout_s=40)
    took_s = time.monotonic() - began
    text = running.text()
    assert code == 1, text
    assert took_s < TIMEOUT_S + 5
    assert "error: rollout 2:0: hang" in text
    assert f", {world.folder}/hang.py:" in text
    assert "--output r.jsonl --resume" in text
    assert failures(world) == [(2, "verifier_error", 1)]
    assert nobody_is_in(world.folder)


@pytest.mark.parametrize(
    "how", ["os._exit(3)", "os._exit(0)", "os.kill(os.getpid(), signal.SIGSEGV)"]
)
def test_a_verifier_that_ends_the_process_is_named_and_the_run_goes_on_without_it(
    world: World, fake: FakeEndpoint, how: str
) -> None:
    arguments = command(world, fake, f"import os; {how}")

    done = world.run("palestra", *arguments)

    assert done.code == 1
    assert "error: rollout 2:0: hang/verify ended the process that it ran in" in done.err
    assert f" in verify, {world.folder}/hang.py:21" in done.err
    again = world.run("palestra", *arguments, "--resume")
    assert "requested 4 = scored 3 + failed 1 (verifier_error 1)" in again.out, again.err


def resumed(world: World, fake: FakeEndpoint) -> Done:
    return world.run("palestra", *command(world, fake, REGEX), "--resume")


def test_what_the_guard_has_ended_goes_on_without_the_rollout_that_was_struck(
    world: World, fake: FakeEndpoint
) -> None:
    verifying(world, fake).ended(timeout_s=40)

    done = resumed(world, fake)

    assert "requested 4 = scored 3 + failed 1 (verifier_error 1)" in done.out, done.err
    assert failures(world) == [(2, "verifier_error", 1)]


def test_a_server_process_that_a_verifier_holds_ends_the_run_likewise(
    world: World, fake: FakeEndpoint
) -> None:
    block = "hang.resources_servers.environment_file"
    arguments = [*command(world, fake, REGEX), f"++{block}.placement=process"]
    done = world.run("palestra", *arguments)

    assert done.code == 1
    assert "error: server hang was ended for a call of rollout 2:0" in done.err
    assert f", {world.folder}/hang.py:" in done.err
    assert (2, "verifier_error", 1) in failures(world)
    assert nobody_is_in(world.folder)

    again = world.run("palestra", *arguments, "--resume")
    assert "requested 4 = scored 3 + failed 1 (verifier_error 1)" in again.out, again.err


RAY = """noted = __import__("json").loads(__import__("palestra").system.current_pulse().noted())
        Path(noted["ray_folder"]).mkdir()
        Path("ray").write_text(noted["ray_folder"])
        while True: pass"""


def test_a_ray_cluster_whose_keeper_the_guard_has_killed_leaves_no_folder(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run("palestra", *command(world, fake, RAY))

    assert done.code == 1
    assert not Path((world.folder / "ray").read_text()).exists()


IN_PROCESS = """
import re

from palestra.server import environment


@environment(data=[{"q": str(n)} for n in range(4)], prompt="{q}", isolated=False)
def verify(answer: str, q: str) -> float:
    return float(bool(q != "2" or re.match(r"(a+)+$", "a" * 40 + "b")))
"""


def test_a_plain_function_inside_the_process_is_watched_too(
    world: World, fake: FakeEndpoint
) -> None:
    arguments = command(world, fake, REGEX)
    world.write("hang.py", IN_PROCESS)

    done = world.run("palestra", *arguments, "--json-events", "events.jsonl")

    assert done.code == 1
    assert f"in verify, {world.folder}/hang.py:" in done.err
    assert failures(world) == [(2, "verifier_error", 1)]
    last = world.rows("events.jsonl")[-1]
    assert (last["event"], last["exit"]) == ("run_ended", 1)
    assert f"in verify, {world.folder}/hang.py:" in last["message"]


AGENT = """
import re

from palestra.schema import Response, ResponseCreateParams
from palestra.server import BoundAgent
from palestra.transport import Peer


class HoldingAgent(BoundAgent):
    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        re.match(r"(a+)+$", "a" * 40 + "b")
        return await model.call("/v1/responses", params, Response)
"""
AGENTS = """
holding_agent:
  responses_api_agents:
    holding_agent:
      resources_server: {type: resources_servers, name: example_multi_step_resources_server}
      model_server: {type: responses_api_models, name: policy_model}
"""


def test_an_agent_that_holds_the_process_fails_as_agent(world: World, fake: FakeEndpoint) -> None:
    (world.folder / "responses_api_agents/holding_agent").mkdir(parents=True)
    world.write("responses_api_agents/holding_agent/app.py", AGENT)
    world.write("agents.yaml", AGENTS)

    done = world.run(
        *("palestra", "collect", "-c", MULTI_STEP, "-c", "agents.yaml", "-c", OPENAI, world.head),
        *(*fake.policy, "--agent", "holding_agent", "--input", TASKS, "--output", "r.jsonl"),
        *("--rollout-timeout", str(TIMEOUT_S), "--limit", "1"),
    )

    assert done.code == 1
    assert "in respond, " in done.err
    assert failures(world) == [(0, "agent_error", 1)]


def test_the_answer_of_the_model_is_kept_with_the_attempt(world: World, fake: FakeEndpoint) -> None:
    verifying(world, fake).ended(timeout_s=40)

    [row] = world.rows("r_failures.jsonl")
    assert row["response"]["output"][0]["content"][0]["text"] == "done"


@pytest.mark.parametrize(
    ("number", "code", "within_s"), [(signal.SIGINT, 130, 3), (signal.SIGTERM, 143, 5)]
)
@pytest.mark.parametrize("to_all", [False, True], ids=["alone", "group"])
def test_a_signal_ends_a_command_whose_lock_is_held(
    world: World, fake: FakeEndpoint, number: signal.Signals, code: int, within_s: int, to_all: bool
) -> None:
    running = verifying(world, fake)

    (os.killpg if to_all else os.kill)(running.process.pid, number)
    asked = time.monotonic()
    ended = running.ended(timeout_s=20)
    assert time.monotonic() - asked < within_s
    assert ended == code, running.text()
    assert "--output r.jsonl --resume" in running.text()
    assert nobody_is_in(world.folder)
    assert [json.loads(line)["reward"] for line in rows_of(world)] == [1.0] * len(rows_of(world))


def rows_of(world: World) -> list[str]:
    path = world.folder / "r.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_ctrl_c_on_a_terminal_counts_once(world: World, fake: FakeEndpoint) -> None:
    near, far = pty.openpty()
    body = "import asyncio; await asyncio.sleep(30)"
    palestra = [str(SCRIPTS / "palestra"), *command(world, fake, body), "--rollout-timeout", "60"]
    run = world.start_on(far, "/usr/bin/setsid", "--ctty", "--wait", *palestra)
    until((world.folder / "in").exists, timeout_s=40)

    os.write(near, b"\x03")

    # Twice would have ended it at once, without a word of how to go on.
    assert run.wait(timeout=20) == 130
    os.close(far)
    assert b"--resume" in os.read(near, 1 << 16)
    os.close(near)


def test_the_run_ends_with_its_guard(world: World, fake: FakeEndpoint) -> None:
    running = verifying(world, fake)

    running.process.kill()

    until(lambda: nobody_is_in(world.folder))


def test_a_lock_that_is_held_is_told_while_it_lasts(world: World, fake: FakeEndpoint) -> None:
    arguments = [*command(world, fake, REGEX), "--rollout-timeout", "60"]
    running = world.start("palestra", *arguments)

    running.until("warning: hang/verify of rollout 2:0 has been blocking")
    assert f"{world.folder}/hang.py:" in running.text()


SAID = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "done", "annotations": []}],
}
STORED_ROWS = [
    {
        "responses_create_params": {"input": str(number)},
        "response": {"id": "r", "created_at": 0, "model": "tiny", "output": [SAID]},
        "reward": 0.0,
        "q": str(number),
        "_ng_task_index": number,
        "_ng_rollout_index": 0,
    }
    for number in range(4)
]


def reverifying(world: World, rows: list[dict[str, Any]], *more: str) -> Done:
    world.write("hang.py", FILE.format(body=REGEX))
    world.write("stored.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return world.run(
        *("palestra", "reverify", "-r", "stored.jsonl", "--environment", "hang.py"),
        *("--output", "new.jsonl", "--timeout", str(TIMEOUT_S), *more),
    )


def test_reverify_ends_in_time_when_a_verifier_holds_it(world: World) -> None:
    done = reverifying(world, STORED_ROWS)

    assert done.code == 1
    assert "error: rollout 2:0: hang/verify" in done.err
    assert f"in verify, {world.folder}/hang.py:" in done.err
    assert "--resume" in done.err
    assert nobody_is_in(world.folder)


def test_reverify_goes_on_without_the_row_that_held_it(world: World) -> None:
    reverifying(world, STORED_ROWS)

    done = reverifying(world, STORED_ROWS, "--resume")

    assert "4 rows = 3 verified + 1 failed" in done.out, done.err
    [failure] = world.rows("new_failures.jsonl")
    assert failure["_ng_failure_class"] == "verifier_error"
    assert (failure["line"], failure["_ng_task_index"]) == (3, 2)
    assert f"{world.folder}/hang.py:" in failure["message"]


def test_a_stored_row_without_indices_is_named_by_its_line(world: World) -> None:
    bare = [{k: v for k, v in row.items() if not k.startswith("_ng_")} for row in STORED_ROWS]

    assert "error: row line 3: hang/verify" in reverifying(world, bare).err

    done = reverifying(world, bare, "--resume")
    assert "4 rows = 3 verified + 1 failed" in done.out, done.err
    assert [row["line"] for row in world.rows("new_failures.jsonl")] == [3]


def test_a_server_process_that_holds_a_stored_row_ends_reverify_likewise(world: World) -> None:
    block = "hang.resources_servers.environment_file"
    placed = f"++{block}.placement=process"

    done = reverifying(world, STORED_ROWS, placed)
    assert done.code == 1
    assert "error: server hang was ended for a call of rollout 2:0" in done.err

    again = reverifying(world, STORED_ROWS, placed, "--resume")
    assert "4 rows = 3 verified + 1 failed" in again.out, again.err


ALWAYS_HOLDING = """
import re

from palestra.server import environment


@environment(data=[{"q": str(n)} for n in range(2)], prompt="{q}", gold="{q}")
async def verify(answer: str, q: str) -> float:
    return float(bool(re.match(r"(a+)+$", "a" * 40 + "b")))
"""


def test_verify_env_shows_its_report_when_the_verifier_holds_it(world: World) -> None:
    world.write("hang.py", ALWAYS_HOLDING)

    done = world.run("palestra", "verify-env", "hang.py", "--timeout", str(TIMEOUT_S), "--json")

    assert done.code == 1
    report = json.loads(done.out)
    assert not report["complete"]
    assert report["checks"][-1]["status"] == "failed"
    [finding] = report["checks"][-1]["findings"]
    assert finding["row"] == 0
    assert f"{world.folder}/hang.py:" in finding["problem"]
    assert nobody_is_in(world.folder)


def test_a_server_that_is_not_made_in_time_ends_its_test(world: World) -> None:
    world.run("palestra", "init", "holding")
    folder = world.folder / "resources_servers/holding"
    shutil.rmtree(folder / "tests")
    app = folder / "app.py"
    app.write_text(f"{app.read_text()}\n\n{REGEX}\n")

    done = world.run("palestra", "test", "holding", "--timeout", str(TIMEOUT_S))

    assert done.code == 1
    assert f"{app}:{len(app.read_text().splitlines())} in <module>" in done.err
    assert f"for {TIMEOUT_S} s, which is as long as a folder may take" in done.err


IN_A_PROGRAM = """
import threading
from typer.testing import CliRunner
from palestra.cli.main import app

ending = threading.Event()
threading.Thread(target=ending.wait).start()
result = CliRunner().invoke(app, ["show", "mcqa"])
ending.set()
print("goes on after", result.exit_code)
"""


def test_a_command_within_a_program_leaves_the_threads_of_the_program_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "goes on after 0\n", done.stderr


def test_a_task_of_an_author_that_raises_system_exit_ends_the_command_with_its_place(
    world: World, fake: FakeEndpoint
) -> None:
    body = "asyncio = __import__('asyncio'); await asyncio.gather(asyncio.create_task(leaving()))"
    arguments = command(world, fake, body)
    with (world.folder / "hang.py").open("a") as file:
        file.write("\n\nasync def leaving():\n    raise SystemExit(4)\n")

    done = world.run("palestra", *arguments)

    assert done.code == 1
    assert "raised SystemExit: 4" in done.err
    assert f"{world.folder}/hang.py:" in done.err
