"""Verifier fixtures: what each kind of case shows, and what `update_expected` writes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from palestra.authoring import (
    FixtureReport,
    FixtureRun,
    RewardRange,
    offline_config,
    run_fixture,
    scaffold,
    update_expected,
)
from palestra.errors import ConfigError, InputDataError

REWARD = RewardRange(low=0.0, high=1.0, best=1.0)
FOREIGN = """
from itertools import count
from pathlib import Path

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.base_resources_server import SimpleResourcesServer

VERIFIER_FIXTURE = Path(__file__).parent / "data" / "cases.jsonl"
NUMBERS = count()


class SumsVerifyRequest(BaseVerifyRequest):
    expected_answer: str


class SumsServer(SimpleResourcesServer):
    async def verify(self, body: SumsVerifyRequest) -> BaseVerifyResponse:
        if body.expected_answer == "raise":
            raise RuntimeError("no such answer")
        if body.expected_answer == "count":
            return BaseVerifyResponse(**body.model_dump(), reward=float(next(NUMBERS)))
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


if __name__ == "__main__":
    SumsServer.run_webserver()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a resources server that compares a boxed answer."""
    monkeypatch.chdir(tmp_path)
    return scaffold("sums", tmp_path)


def run(folder: Path, reward: RewardRange | None = None, **limits: float) -> FixtureReport:
    config = offline_config([f"resources_servers/{folder.name}/configs/{folder.name}.yaml"])
    return asyncio.run(run_fixture(FixtureRun(config, folder.name, reward, **limits)))


def cases_of(folder: Path) -> list[dict[str, Any]]:
    path = folder / "tests" / "verifier_fixture.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(folder: Path, *cases: dict[str, Any], name: str = "tests/verifier_fixture.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def without_expectation(case: dict[str, Any]) -> dict[str, Any]:
    return {key: case[key] for key in ("name", "kind", "request")}


def test_the_fixture_of_a_new_server_passes(folder: Path) -> None:
    report = run(folder, REWARD)

    assert report.passed
    assert report.kinds == {"full_reward", "zero_reward", "malformed", "determinism"}


def test_a_server_written_for_nemo_gym_runs_its_fixture(folder: Path) -> None:
    (folder / "app.py").write_text(FOREIGN)
    right, _, malformed, same = cases_of(folder)
    counted = {**same, "request": {**same["request"], "expected_answer": "count"}}
    raised = {**malformed, "name": "raise", "expected_error": "no such answer"}
    raised["request"] = {**right["request"], "expected_answer": "raise"}
    write(folder, right, malformed, counted, raised, name="data/cases.jsonl")

    report = run(folder)

    assert [case.passed for case in report.cases] == [True, True, False, True]


def test_a_case_with_another_result_fails_and_names_both(folder: Path) -> None:
    right, wrong, malformed, _ = cases_of(folder)
    write(
        folder,
        {**right, "expected_reward": 0.5},
        {**wrong, "request": right["request"]},
        {**malformed, "expected_error": 500},
        {**malformed, "name": "scored", "request": right["request"]},
    )

    report = run(folder)

    assert [case.passed for case in report.cases] == [False] * 4
    assert "0.5" in report.cases[0].problem


@pytest.mark.parametrize("error", [422, "422", "expected_answer", "RowError"])
def test_an_expected_error_is_a_status_or_a_part_of_the_error(
    folder: Path, error: int | str
) -> None:
    malformed = cases_of(folder)[2]
    write(folder, {**malformed, "expected_error": error})

    assert run(folder).passed


def test_a_malformed_request_may_be_no_object_at_all(folder: Path) -> None:
    write(folder, {"name": "a list", "kind": "malformed", "request": [1, 2]})

    assert run(folder).passed


def test_a_malformed_answer_may_have_a_reward(folder: Path) -> None:
    wrong = cases_of(folder)[1]
    write(folder, {**wrong, "kind": "malformed"})

    assert run(folder).passed


@pytest.mark.parametrize(
    ("reward", "passed"),
    [
        (RewardRange(low=0.0, high=1.0, best=1.0), True),
        (RewardRange(low=0.0, high=0.5, best=0.5), False),
        (RewardRange(low=0.0, high=2.0, best=2.0), False),
        (RewardRange(low=0.0, high=1.0, best=0.0), False),
    ],
)
def test_rewards_must_fit_the_declared_range(
    folder: Path, reward: RewardRange, *, passed: bool
) -> None:
    write(folder, without_expectation(cases_of(folder)[0]))

    assert run(folder, reward).passed is passed


def test_update_expected_writes_what_the_server_does_and_keeps_other_lines(folder: Path) -> None:
    right, wrong, malformed, same = cases_of(folder)
    path = write(
        folder,
        {**right, "expected_reward": 0.5},
        wrong,
        without_expectation(malformed),
        {**same, "expected_reward": 0.0},
    )
    untouched = path.read_bytes().splitlines()[1]

    changed = update_expected(run(folder, REWARD))

    written = cases_of(folder)
    assert changed == [right["name"], malformed["name"], same["name"]]
    assert [case["expected_reward"] for case in (written[0], written[3])] == [1.0, 1.0]
    assert written[2]["expected_error"] == 422
    assert path.read_bytes().splitlines()[1] == untouched
    assert run(folder, REWARD).passed


def test_update_expected_keeps_a_case_that_contradicts_its_kind(folder: Path) -> None:
    right, wrong, *_ = cases_of(folder)
    path = write(folder, {**right, "request": wrong["request"]})
    before = path.read_bytes()

    assert update_expected(run(folder, REWARD)) == []
    assert path.read_bytes() == before


def test_a_verifier_that_does_not_answer_in_time_fails_its_case(folder: Path) -> None:
    app = folder / "app.py"
    text = app.read_text().replace("    def verify(", "    async def verify(")
    slow = "        import asyncio\n\n        await asyncio.sleep(30)\n        boxes = "
    app.write_text(text.replace("        boxes = ", slow, 1))
    write(folder, cases_of(folder)[0])

    [case] = run(folder, timeout_s=0.2).cases

    assert not case.passed
    assert case.verdict.reward is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "half_reward"},
        {"expected_error": 422},
        {"expectd_reward": 1.0},
        {"request": "text"},
        {"name": ""},
    ],
)
def test_a_wrong_case_is_refused_with_its_line(folder: Path, change: dict[str, Any]) -> None:
    right, wrong, *_ = cases_of(folder)
    write(folder, right, {**wrong, **change})

    with pytest.raises(InputDataError, match="line 2"):
        run(folder)


def test_a_name_that_is_used_twice_is_refused(folder: Path) -> None:
    right = cases_of(folder)[0]
    write(folder, right, right)

    with pytest.raises(InputDataError, match="line 2"):
        run(folder)


def test_a_server_without_a_fixture_says_how_to_name_one(folder: Path) -> None:
    app = folder / "app.py"
    app.write_text(app.read_text().replace("VERIFIER_FIXTURE", "OTHER_FILE"))

    with pytest.raises(ConfigError) as refused:
        run(folder)

    assert "VERIFIER_FIXTURE" in refused.value.hint


def test_a_fixture_that_does_not_exist_is_refused(folder: Path) -> None:
    (folder / "tests" / "verifier_fixture.jsonl").unlink()

    with pytest.raises(InputDataError):
        run(folder)


@pytest.mark.slow
def test_a_fixture_runs_in_another_interpreter_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from palestra.authoring import fixture_runs

    config = offline_config(["resources_servers/sums/configs/sums.yaml"])
    work = FixtureRun(config, "sums", REWARD)

    elsewhere = asyncio.run(fixture_runs._run_elsewhere(work, Path(sys.executable)))

    assert elsewhere == run(folder, REWARD)
