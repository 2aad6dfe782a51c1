"""Environments in one file that catch the failure of their judge: no reward, in each placement."""

from pathlib import Path
from typing import Any

import pytest

import palestra
from palestra import Run
from palestra.testing import EndpointError, scripted_endpoint

pytestmark = pytest.mark.slow

CAUGHT = """
from palestra import Environment, tool

class Judged(Environment):
    data = [{"question": "2+2?", "a": "4"}]
    prompt = "{question}"

    async def verify(self, answer, a):
        for _ in range(TRIES):
            try:
                return float(await self.judge.same(a, answer))
            except Exception:
                continue
        return 0.0
"""
IN_A_WORKER = f"""{CAUGHT}
    def start(self):
        self.count = 0

    @tool
    def look(self) -> str:
        "Look."
        return "nothing"
"""
EQUAL = "Equal.\n[[A=B]]"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))


def run(source: str, *verdicts: str | EndpointError, tries: int = 1) -> Run:
    """A run of one rollout, whose judge gives `verdicts`."""
    Path("judged.py").write_text(f"TRIES = {tries}\n{source}")
    with scripted_endpoint("4") as model, scripted_endpoint(*verdicts) as judge:
        return palestra.evaluate(
            "judged.py",
            model=f"vllm:{model.url}",
            judge=f"vllm:scripted@{judge.url}",
            output="out/run.jsonl",
            max_attempts=1,
            progress=False,
        )


@pytest.mark.parametrize("source", [CAUGHT, IN_A_WORKER], ids=["here", "in a worker"])
@pytest.mark.parametrize(
    "verdict", ["blah", EndpointError(501, "refused")], ids=["no label", "error"]
)
def test_a_caught_failure_of_the_judge_fails_the_rollout(source: str, verdict: Any) -> None:
    unjudged = run(source, verdict)

    [failure] = unjudged.failures()
    [attempt] = failure.attempts
    assert attempt.failure_class == "judge_error"
    assert "/verify went on without this answer" in attempt.message
    assert "4" in attempt.judge_question


@pytest.mark.parametrize("source", [CAUGHT, IN_A_WORKER], ids=["here", "in a worker"])
def test_a_question_that_the_author_asks_again_gives_a_reward(source: str) -> None:
    judged = run(source, "blah", EQUAL, EQUAL, tries=2)

    assert [rollout.reward for rollout in judged.rollouts()] == [1.0]


def test_a_caught_failure_of_the_judge_fails_the_verification_of_a_stored_row() -> None:
    judged = run(CAUGHT, EQUAL, EQUAL)
    with scripted_endpoint("blah") as junk:
        again = judged.reverify(fresh_judge=True, judge=f"vllm:scripted@{junk.url}")

    assert (again.result["verified"], again.failed) == (0, 1)
