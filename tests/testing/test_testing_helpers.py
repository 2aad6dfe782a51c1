"""The helpers that authors' tests are made of."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from palestra import ResourcesServer, environment, tool
from palestra.authoring.scaffold import scaffold
from palestra.errors import CallError, ConfigError
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.testing import (
    ScriptedFleet,
    ScriptedModel,
    assert_recorded_rewards,
    assert_verifies,
    called,
    fleet,
    response_of,
    task_row,
    task_rows,
    verify,
)

__all__ = ["fleet"]

WEATHER = "example_tool_call_multireward"
Fleets = Callable[..., ScriptedFleet]


@environment(data=[], prompt="{question}")
def exact(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)


@pytest.mark.slow
def test_a_script_that_fails_beside_a_scripted_endpoint_ends() -> None:
    script = (
        "from palestra.testing import scripted_endpoint\n"
        "endpoint = scripted_endpoint('yes')\n"
        "endpoint.__enter__()\n"
        "raise SystemExit(7)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=30)

    assert done.returncode == 7


def test_the_right_answer_verifies_and_another_one_does_not() -> None:
    row = task_row("2 + 2?", expected_answer="4")

    assert_verifies(exact, row, "4", 1.0)
    assert_verifies(exact, row, "5", 0.0)


def test_a_wrong_expectation_says_what_was_got() -> None:
    with pytest.raises(AssertionError, match="got 0, not 1"):
        assert_verifies(exact, task_row("2 + 2?", expected_answer="4"), "5", 1.0)


def test_a_failure_is_told_and_never_a_reward() -> None:
    with pytest.raises(AssertionError, match=r"no reward: .*expected_answer"):
        assert_verifies(exact, task_row("2 + 2?"), "4", 0.0)


def test_calls_are_run_in_the_session_that_is_verified() -> None:
    row = task_row("Raise it by 2.", initial_count=1, expected_count=3)
    answer = response_of(called("increment_counter", {"count": 2}), "Done.")

    assert_verifies("example_session_state_mgmt", row, answer, 1.0)


class Broken(ResourcesServer):
    """An environment whose tool has a bug."""

    @tool
    def look_up(self, name: str) -> str:
        """Look it up."""
        return {"Rome": "Italy"}[name]

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 0.0)


def test_a_wrong_reward_names_the_tools_that_broke_on_the_way() -> None:
    answer = response_of(called("look_up", {"name": "Oslo"}), "Norway")

    with pytest.raises(AssertionError, match="its tools broke: look_up raised KeyError: 'Oslo'"):
        assert_verifies(Broken, task_row("Where is Oslo?"), answer, 1.0)


BROKEN_FOLDER = """
from palestra import ResourcesServer, tool
from palestra.schema import VerifyRequest, VerifyResponse


class Broken(ResourcesServer):
    @tool
    def look_up(self, name: str) -> str:
        return {"Rome": "Italy"}[name]

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 0.0)
"""


@pytest.mark.slow
def test_a_fleet_shows_the_tools_that_broke(fleet: Fleets, tmp_path: Path) -> None:
    folder = scaffold("my_env", tmp_path)
    (folder / "app.py").write_text(BROKEN_FOLDER)
    running = fleet(folder, answers=[called("look_up", {"name": "Oslo"}), "Norway"])

    row = running.run(task_row("Where is Oslo?"))

    assert row["tool_failures"] == running.tool_failures
    [failure] = running.tool_failures
    assert failure.pop("at").endswith(" in look_up")
    assert failure == {"tool": "look_up", "type": "KeyError", "message": "'Oslo'"}


def test_each_call_of_a_script_has_an_id_of_its_own(fleet: Fleets) -> None:
    look = called("get_weather", {"city": "Rome"})
    named = called("get_weather", {"city": "Oslo"}, "mine")
    running = fleet(WEATHER, answers=[[look, look, named], look, "Dry."])

    row = task_row("Rain?", expected_call={"name": "get_weather", "arguments": {"city": "Rome"}})
    items = running.run(row)["response"]["output"]

    ids = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert ids == ["call_1_1", "call_1_2", "mine", "call_2_1"]


def test_a_fleet_plays_the_scripted_turns(fleet: Fleets) -> None:
    row = task_row(
        "Rain in Rome?", expected_call={"name": "get_weather", "arguments": {"city": "Rome"}}
    )
    running = fleet(WEATHER, answers=[called("get_weather", {"city": "Rome"}), response_of()])

    assert running.run(row)["reward_components"]["correctness"] == 1.0
    assert len(running.model.asked) == 2


def test_a_model_that_is_asked_too_often_says_so(fleet: Fleets) -> None:
    running = fleet(WEATHER, answers=[called("get_weather", {"city": "Rome"})])

    with pytest.raises(CallError, match="only 1 answers"):
        running.run(task_row("?", expected_call={"name": "get_weather"}))


def test_answers_may_be_made_of_the_request(fleet: Fleets) -> None:
    model = ScriptedModel.answering(lambda params: str(params.input[-1].text).upper())

    result = fleet("mcqa", model=model).run(
        task_row("answer: b", expected_answer="B", grading_mode="lenient_answer_colon")
    )

    assert result["reward"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resources_servers/my_env", "my_env"])
@pytest.mark.parametrize("below", ["resources_servers/my_env", "resources_servers/my_env/tests"])
def test_names_are_looked_up_from_the_projects_root(
    name: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaffold("my_env", tmp_path)
    monkeypatch.chdir(tmp_path / below)
    row = task_row("17 + 25?", expected_answer="42")

    assert_verifies(name, row, "\\boxed{42}", 1.0)
    with ScriptedFleet(name, answers=["\\boxed{42}"]) as running:
        assert running.run(row)["reward"] == 1.0
    assert_recorded_rewards(name)


def test_a_folder_without_a_config_is_verified_and_cannot_be_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scaffold("my_env", tmp_path) / "configs" / "my_env.yaml").unlink()
    monkeypatch.chdir(tmp_path / "resources_servers" / "my_env")

    assert_verifies("my_env", task_row("1 + 1?", expected_answer="2"), "\\boxed{2}", 1.0)
    with pytest.raises(ConfigError, match=r"configs/my_env\.yaml") as refused:
        ScriptedFleet("my_env")
    assert "palestra init my_env --config-only" in refused.value.hint


PLACED = """
import os

from palestra import ResourcesServer
from palestra.schema import VerifyRequest, VerifyResponse

IMPORTED = os.environ.get("PLACED", "")
EDITION = 1


class Placed(ResourcesServer):
    def verify(self, body: VerifyRequest) -> VerifyResponse:
        place = {"worker": os.getpid(), "nursery": os.getppid()}
        return self.reply(body, 1.0, **place, variable=IMPORTED, edition=EDITION)
"""


@pytest.mark.slow
def test_verifications_of_one_environment_share_its_imports_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = scaffold("my_env", tmp_path) / "app.py"
    app.write_text(PLACED)

    def place() -> Mapping[str, Any]:
        verdict = verify(app.parent, task_row("?"), "!")
        assert verdict.reported is not None, verdict.failure
        return verdict.reported

    first, second = place(), place()
    monkeypatch.setenv("PLACED", "elsewhere")
    elsewhere = place()
    app.write_text(PLACED.replace("EDITION = 1", "EDITION = 22"))
    edited = place()

    assert first["nursery"] == second["nursery"]
    assert first["worker"] != second["worker"]
    assert (second["variable"], elsewhere["variable"]) == ("", "elsewhere")
    assert (elsewhere["edition"], edited["edition"]) == (1, 22)


@pytest.mark.slow
def test_an_environment_is_verified_again_after_its_nursery_was_killed(tmp_path: Path) -> None:
    app = scaffold("my_env", tmp_path) / "app.py"
    app.write_text(PLACED)
    before = verify(app.parent, task_row("?"), "!").reported or {}

    os.kill(before["nursery"], signal.SIGKILL)
    after = verify(app.parent, task_row("?"), "!")

    assert after.reward == 1.0
    assert (after.reported or {})["nursery"] != before["nursery"]


def test_rows_are_numbered() -> None:
    assert [row["id"] for row in task_rows(2, id="row-{n}")] == ["row-0", "row-1"]


HOLDING = {
    "regex": lambda: re.match(r"(a+)+$", "a" * 40 + "b"),
    "sleep": lambda: time.sleep(1e6),
    "spin": lambda: all(True for _ in itertools.count()),
}


@environment(data=[{"kind": kind} for kind in HOLDING], prompt="{kind}")
async def holding(answer: str, kind: str) -> float:
    HOLDING[kind]()
    return 1.0


@pytest.mark.parametrize("kind", HOLDING)
def test_a_verifier_that_holds_the_loop_is_interrupted_and_named(kind: str) -> None:
    row = {"kind": kind, "responses_create_params": {"input": "?"}}

    verdict = verify(holding, row, "!", timeout_s=0.5)

    assert verdict.timed_out
    assert verdict.failure is not None
    assert f", {__file__}:" in verdict.failure.message
    assert signal.getsignal(signal.SIGPROF) == signal.SIG_DFL


def test_the_helpers_can_be_imported_without_pytest() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None; "
        "from palestra.testing import fleet, scripted_endpoint, task_row"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
