"""The command that verifies a run again is the same wherever it is advised, and it names the judge."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from viewer_world import viewing

import palestra
from palestra import Run
from palestra.cli.main import app
from palestra.schema import RunPaths
from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow

JUDGED = """
from palestra import Environment

class Judged(Environment):
    isolated = False  # a worker takes a second to start, and is no part of what is tested
    data = [{"question": "2+2?", "a": "4"}]
    prompt = "{question}"

    async def verify(self, answer, a):
        return float(await self.judge.same(a, answer))
"""
CORRECT = "Equal.\n[[A=B]]"
OUTPUT = Path("out/run.jsonl")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    Path("judged.py").write_text(JUDGED)


@pytest.fixture
def judge() -> Iterator[str]:
    with scripted_endpoint(*[CORRECT] * 4) as endpoint:
        yield f"vllm:scripted@{endpoint.url}"


def evaluated(judge: str) -> Run:
    with scripted_endpoint("4") as model:
        return palestra.evaluate(
            "judged.py",
            model=f"vllm:{model.url}",
            judge=judge,
            output=OUTPUT,
            max_attempts=1,
            progress=False,
        )


@pytest.fixture
def scored(judge: str) -> Run:
    """A run whose judge found the answer right."""
    return evaluated(judge)


@pytest.fixture
def unjudged() -> Run:
    """A run whose judge answered nonsense."""
    with scripted_endpoint("blah") as junk:
        return evaluated(f"vllm:scripted@{junk.url}")


def of_the_viewer(tmp_path: Path) -> list[str]:
    with viewing(OUTPUT, cache=tmp_path / "cache") as world:
        lines = world.get("/api/r/RUN/t/0/0/commands")["commands"]
    [text] = [line["value"] for line in lines if line["name"] == "reverify"]
    return shlex.split(text)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_the_command_of_the_viewer_names_the_judge_of_a_scored_rollout(
    scored: Run, judge: str, tmp_path: Path
) -> None:
    words = of_the_viewer(tmp_path)

    assert scored.scored == 1
    assert option(words, "--judge") == judge
    assert option(words, "--only") == "0:0"


def test_the_command_of_the_viewer_works_in_another_folder(
    scored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = of_the_viewer(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    with pytest.raises(SystemExit) as ended:
        app(words[1:])

    assert ended.value.code == 0
    [row] = (tmp_path / "out/run_reverified.jsonl").read_text().splitlines()
    assert json.loads(row)["reward"] == scored.mean_reward


def test_the_viewer_and_show_and_the_doctor_give_one_command(unjudged: Run, tmp_path: Path) -> None:
    remedy = unjudged.failures()[0].remedy
    [finding] = unjudged.diagnose().findings
    with viewing(OUTPUT, cache=tmp_path / "cache") as world:
        attempts = world.get("/api/r/RUN/t/0/0/attempts")
    texts = [remedy, finding.next_action, attempts["next_action"]]
    command = RunPaths(OUTPUT).manifest.read_text()
    recorded = json.loads(command)["reverify"]["command"]

    assert [recorded in text for text in texts] == [True, True, True]
    words = of_the_viewer(tmp_path)
    assert option(words, "--judge") == option(shlex.split(recorded), "--judge")
    assert Path(option(words, "--environment")) == tmp_path / "judged.py"


def change_manifest(**fields: Any) -> None:
    path = RunPaths(OUTPUT).manifest
    manifest = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in manifest.items() if value}))


@pytest.mark.parametrize("given", ["--judge tiny", "--judge=tiny"])
def test_the_command_for_a_run_that_records_none_is_made_of_the_command_that_collected_it(
    scored: Run, given: str, tmp_path: Path
) -> None:
    change_manifest(reverify=None, command=f"palestra eval judged.py {given}")

    words = of_the_viewer(tmp_path)

    assert scored.scored == 1
    assert option(words, "--judge") == "tiny"
    assert option(words, "--environment") == str(tmp_path / "judged.py")


def collected(*models: str) -> dict[str, Any]:
    """What the manifest of a collection records. `models`: its flags."""
    flags = ("--config", "judged.py", "--output", str(OUTPUT), "--progress", "none")
    with pytest.raises(SystemExit) as ended:
        app(["collect", *flags, *models])
    assert ended.value.code == 0
    recorded: dict[str, Any] = json.loads(RunPaths(OUTPUT).manifest.read_text())["reverify"]
    return recorded


def test_a_collection_records_the_judge_that_its_flag_names(judge: str) -> None:
    with scripted_endpoint("4") as model:
        recorded = collected("--model", f"vllm:{model.url}", "--judge", judge)

    assert option(shlex.split(recorded["command"]), "--judge") == judge
    assert recorded["names_judge"] is True


def test_the_policy_is_named_where_it_judges_itself() -> None:
    with scripted_endpoint("4", CORRECT, CORRECT) as model:
        name = f"vllm:{model.url}"
        recorded = collected("--model", name)

    assert option(shlex.split(recorded["command"]), "--judge") == name


def test_the_first_request_names_the_model_of_the_run(scored: Run, tmp_path: Path) -> None:
    with viewing(OUTPUT, cache=tmp_path / "cache") as world:
        lines = world.get("/api/r/RUN/t/0/0/commands")["commands"]

    [curl] = [line["value"] for line in lines if line["name"] == "curl"]
    body = json.loads(shlex.split(curl)[-1])
    assert body["model"] == scored.model
