"""What a hosted agent gets that marks its results as failed, or as not to be kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from hosted_apps import run

from palestra import rollouts
from palestra.fleet import Fleet
from palestra.settings import CollectSettings, InputFile

AGENT = """
from nemo_gym.rollout_collection import NG_FAILURE_CLASS_KEY, NG_NO_PERSIST_KEY
from pydantic import ConfigDict

class Row(BaseRunRequest):
    model_config = ConfigDict(extra="allow")

class Marked(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig
    calls: list = []
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...
    async def run(self, body: Row) -> dict:
        self.calls.append(1)
        response = {"id": "r", "created_at": 0, "model": "m", "output": []}
        result = {**body.model_dump(), "response": response, "reward": 0.5}
        if len(self.calls) <= body.failing:
            result |= {NG_FAILURE_CLASS_KEY: "judge_failed"} if body.how == "failure" else {}
            result |= {NG_NO_PERSIST_KEY: True} if body.how == "unkept" else {}
            if body.how == "judge":
                result |= {"reward": 0.0, NG_FAILURE_CLASS_KEY: "judge_failed",
                           "_ng_failure_judge_error": "the judge is gone"}
        return result
"""


def collected(root: Path, **row: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and failures of a collection of one row."""
    inputs, output = root / "tasks.jsonl", root / "run.jsonl"
    inputs.write_text(json.dumps({"responses_create_params": {"input": "q"}, **row}) + "\n")
    settings = CollectSettings(
        inputs=(InputFile(inputs),),
        output_jsonl_fpath=output,
        agent_name="marked",
        disable_aggregation=True,
        attempt_pause_s=0.0,
    )

    async def check(fleet: Fleet) -> None:
        ready = rollouts.prepare(settings, agents={"marked"}, semantics={}, version="1")
        await rollouts.run(ready, settings, fleet.client)

    run(root, {"responses_api_agents/marked": AGENT}, check)
    failures = root / "run_failures.jsonl"
    return _rows(output), _rows(failures) if failures.exists() else []


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("how", "class_"), [("failure", "judge_error"), ("unkept", "infra_error")])
def test_a_marked_result_is_a_failed_attempt_and_the_next_may_score(
    tmp_path: Path, how: str, class_: str
) -> None:
    rows, failures = collected(tmp_path, how=how, failing=1)

    assert [row["reward"] for row in rows] == [0.5]
    assert [(row["_ng_failure_class"], row["attempt"]) for row in failures] == [(class_, 1)]


@pytest.mark.parametrize(("how", "is_kept"), [("failure", True), ("unkept", False)])
def test_a_result_that_stays_marked_is_never_scored(
    tmp_path: Path, how: str, is_kept: bool
) -> None:
    rows, failures = collected(tmp_path, how=how, failing=99)

    assert rows == []
    assert {"response" in row for row in failures} == {is_kept}
    assert [row["_ng_failure_terminal"] for row in failures] == [False, False, True]
