"""Authors' files whose import never ends: the command ends, with the line, within the start limit."""

import signal
import time

import pytest
from cli_world import Done, World, until
from test_cli_guard import nobody_is_in

pytestmark = [pytest.mark.slow, pytest.mark.alone]

FILE = """
import re
import sys
from pathlib import Path

from palestra import environment

Path("in").touch()
{body}


@environment(data=[{{"q": "1"}}], prompt="{{q}}", gold="{{q}}")
def verify(answer: str, q: str) -> float:
    return 1.0
"""
LINE = FILE[: FILE.index("{body}")].count("\n") + 1
HOLDS_LOCK = 're.match(r"(a+)+$", "a" * 40 + "b")'
SPINS = "while True: pass"
IN_A_WORKER = 'if "workers.nursery" in Path("/proc/self/cmdline").read_text(): ' + HOLDS_LOCK
LIMIT_S = 4
BEYOND_S = 25
"""What the command itself takes, on a busy machine too."""


def ended(world: World, body: str, *command: str) -> Done:
    world.write("hang.py", FILE.format(body=body))
    began = time.monotonic()
    done = world.run("palestra", *command, f"++start_timeout={LIMIT_S}")
    assert time.monotonic() - began < LIMIT_S + BEYOND_S
    assert done.code == 1
    assert nobody_is_in(world.folder)
    return done


@pytest.mark.parametrize("body", [HOLDS_LOCK, SPINS], ids=["lock", "spin"])
@pytest.mark.parametrize(
    "command",
    [("eval", "hang.py", "--model", "local"), ("verify-env", "hang.py", "--json")],
    ids=["eval", "verify-env"],
)
def test_a_file_is_not_imported_for_longer_than_a_server_may_start(
    world: World, body: str, command: tuple[str, ...]
) -> None:
    [error] = ended(world, body, *command).errors

    assert f"{world.folder}/hang.py was not imported within {LIMIT_S} s" in error
    assert f"{world.folder}/hang.py:{LINE} in <module>" in error


def test_doctor_ends_when_a_file_holds_its_process(world: World) -> None:
    world.write(
        "env.yaml",
        "x:\n  resources_servers:\n    environment_file:\n      path: hang.py\n"
        "policy_base_url: http://127.0.0.1:9/v1\npolicy_api_key: k\npolicy_model_name: m\n",
    )
    config = world.write("none.yaml", "{}\n")
    world.write("tasks.jsonl", '{"responses_create_params": {"input": "1"}}\n')

    done = ended(
        world,
        HOLDS_LOCK,
        *("doctor", "--config", str(config), "--input", "tasks.jsonl", "--output", "r.jsonl"),
    )

    assert f"{world.folder}/hang.py:{LINE} in <module>" in done.out + done.err


def test_a_worker_that_does_not_import_the_file_says_where_and_ends(world: World) -> None:
    done = ended(world, IN_A_WORKER, "verify-env", "hang.py")

    [error] = done.errors
    assert f"{world.folder}/hang.py:{LINE} in <module>" in error
    assert "++start_timeout" in done.err


@pytest.mark.parametrize("body", [HOLDS_LOCK, SPINS], ids=["lock", "spin"])
def test_ctrl_c_ends_an_import_at_once(world: World, body: str) -> None:
    world.write("hang.py", FILE.format(body=body))
    running = world.start("palestra", "eval", "hang.py", "--model", "local")
    until((world.folder / "in").exists, timeout_s=30)

    running.interrupt()

    assert running.ended(timeout_s=10) == 128 + signal.SIGINT
