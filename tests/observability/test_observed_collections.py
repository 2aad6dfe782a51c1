"""A whole collection with observability on: files of model servers, attachments in rows."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palestra.config import load_config
from palestra.errors import InfraError, InputDataError
from palestra.fleet import Fleet, assembled
from palestra.observability import CaptureStore, current_rollout_id
from palestra.rollouts import prepare, run
from palestra.schema import JsonDict
from palestra.settings import CollectSettings, InputFile
from palestra.testing import ScriptedModel
from palestra.transport import ServerClient

AGENT = "mcqa_simple_agent"
CONFIG = "resources_servers/mcqa/configs/mcqa.yaml"
TASK = {
    "responses_create_params": {"input": "Which?"},
    "options": [{"A": "6"}, {"B": "8"}],
    "expected_answer": "B",
}


def observed(folder: Path, **others: Any) -> JsonDict:
    return {
        "observability_enabled": True,
        "model_call_capture_dir": str(folder / "capture"),
        **others,
    }


def rows_of(path: Path) -> list[JsonDict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def collected(
    client: ServerClient, folder: Path, tasks: list[JsonDict], **settings: Any
) -> None:
    inputs = folder / "tasks.jsonl"
    inputs.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    chosen = CollectSettings(
        **{
            "inputs": (InputFile(inputs),),
            "output_jsonl_fpath": folder / "run.jsonl",
            "agent_name": AGENT,
            "attempt_pause_s": 0.0,
            **settings,
        }
    )
    prepared = prepare(chosen, agents={AGENT}, semantics={}, version="1")
    await run(prepared, chosen, client)


def collect(
    folder: Path,
    model: ScriptedModel,
    tree: JsonDict,
    tasks: list[JsonDict] | None = None,
    **settings: Any,
) -> list[JsonDict]:
    """The rows of a collection with a scripted model, all in this process."""
    config = load_config(config_paths=[CONFIG], extra=tree, required=(), use_env_yaml=False)

    async def work() -> None:
        async with assembled(config, list(config.instances), {"policy_model": model}) as fleet:
            await collected(fleet.client, folder, tasks or [TASK], **settings)

    asyncio.run(work())
    return sorted(rows_of(folder / "run.jsonl"), key=lambda row: row["_ng_rollout_index"])


def test_model_calls_are_in_files_and_rows(tmp_path: Path) -> None:
    model = ScriptedModel.saying(r"\boxed{B}", r"\boxed{A}")

    rows = collect(tmp_path, model, observed(tmp_path), num_repeats=2, num_samples_in_parallel=1)

    assert [row["reward"] for row in rows] == [1.0, 0.0]
    store = CaptureStore(tmp_path / "capture")
    for number, row in enumerate(rows):
        rollout_id = f"0-{number}"
        (exchange,) = store.read(rollout_id)
        assert exchange["model_ref"] == {"type": "responses_api_models", "name": "policy_model"}
        assert exchange["dialect"] == "responses"
        assert exchange["request"]["input"]
        assert exchange["response"]["id"] == row["response"]["id"]
        capture = row["ng_model_call_capture"]
        assert capture["rollout_id"] == rollout_id
        assert capture["metrics"]["num_calls"] == 1
        assert "gaps" not in capture
        assert "request" not in capture["calls"][0]
        trajectory = row["ng_trajectory"]
        assert (trajectory["task_id"], trajectory["rollout_id"]) == ("0", rollout_id)
        assert trajectory["model_calls"][0]["request"] == exchange["request"]
    metrics = (tmp_path / "run_aggregate_metrics.json").read_text()
    assert "mean/reward" in metrics
    assert "ng_" not in metrics.replace("_ng_", "")


def test_without_observability_there_is_neither(tmp_path: Path) -> None:
    (row,) = collect(tmp_path, ScriptedModel.saying(r"\boxed{B}"), {})

    assert not {"ng_model_call_capture", "ng_trajectory"} & row.keys()
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set()


def test_files_of_an_earlier_run_are_cleared_before_dispatch(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path / "capture")
    store.record("0-0", {"model_call_id": "old"})
    store.mark_incomplete("0-0")

    (row,) = collect(tmp_path, ScriptedModel.saying(r"\boxed{B}"), observed(tmp_path))

    assert len(store.read("0-0")) == 1
    assert not store.is_incomplete("0-0")
    assert "gaps" not in row["ng_model_call_capture"]


def damaged(store: CaptureStore) -> None:
    store.path_for("0-0").write_bytes(b'{"torn": ')


def unwritable(store: CaptureStore) -> None:
    store.path_for("0-0").mkdir()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (damaged, "model_call_capture_records_unreadable"),
        (unwritable, "model_call_capture_unreadable"),
    ],
)
def test_a_damaged_capture_file_is_a_gap_and_the_row_is_scored(
    tmp_path: Path, damage: Callable[[CaptureStore], None], code: str
) -> None:
    def answer(_params: Any) -> str:
        damage(CaptureStore(tmp_path / "capture"))
        return r"\boxed{B}"

    (row,) = collect(tmp_path, ScriptedModel.answering(answer), observed(tmp_path))

    assert row["reward"] == 1.0
    codes = {gap["code"] for gap in row["ng_model_call_capture"]["gaps"]}
    assert code in codes
    assert code in {gap["code"] for gap in row["ng_trajectory"]["gaps"]}


def test_each_attempt_has_its_own_files_and_its_index(tmp_path: Path) -> None:
    ids: list[str | None] = []

    def answer(_params: Any) -> str:
        ids.append(current_rollout_id())
        if len(ids) < 3:
            raise InfraError("the endpoint is away")
        return r"\boxed{B}"

    (row,) = collect(tmp_path, ScriptedModel.answering(answer), observed(tmp_path))

    assert ids == ["0-0", "0-0-a1", "0-0-a2"]
    assert row["_ng_attempt_index"] == 2
    assert row["ng_model_call_capture"]["rollout_id"] == "0-0-a2"
    first, second = rows_of(tmp_path / "run_failures.jsonl")
    assert "_ng_attempt_index" not in first
    assert second["_ng_attempt_index"] == 1
    failed = CaptureStore(tmp_path / "capture").read("0-0")[0]
    assert failed["error_category"] is not None
    assert "the endpoint is away" in failed["response"]["error"]["message"]


def test_a_rows_own_rollout_id_names_its_files(tmp_path: Path) -> None:
    task = {**TASK, "_ng_rollout_id": "mine.1"}

    (row,) = collect(tmp_path, ScriptedModel.saying(r"\boxed{B}"), observed(tmp_path), [task])

    assert row["ng_model_call_capture"]["rollout_id"] == "mine.1"
    assert len(CaptureStore(tmp_path / "capture").read("mine.1")) == 1


def test_a_row_whose_rollout_id_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    task = {**TASK, "_ng_rollout_id": "a/b"}

    with pytest.raises(InputDataError, match="_ng_rollout_id"):
        collect(tmp_path, ScriptedModel.saying(), observed(tmp_path), [task])


def test_token_ids_of_the_policy_are_captured_alone(tmp_path: Path) -> None:
    tree = {
        "token_id_capture": {"enabled": True},
        "model_call_capture_dir": str(tmp_path / "capture"),
    }

    def answer(_params: Any) -> Any:
        from palestra.schema import response_of, said

        message = said(r"\boxed{B}").model_copy(
            update={
                "prompt_token_ids": [1],
                "generation_token_ids": [2],
                "generation_log_probs": [-0.1],
            }
        )
        return response_of(message, model="tiny")

    (row,) = collect(tmp_path, ScriptedModel.answering(answer), tree)

    assert "ng_trajectory" not in row
    (record,) = rows_of(tmp_path / "capture" / "0-0.tokens.jsonl")
    assert (record["prompt_token_ids"], record["generation_token_ids"]) == ([1], [2])


MODEL = """
from palestra.schema import Response, ResponseCreateParams, response_of
from palestra.server import ModelServer, ModelServerConfig, Session

class Scripted(ModelServer):
    config: ModelServerConfig
    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        return response_of(r"\\boxed{B}", model="tiny")
"""


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["embedded", "process"])
def test_a_fleet_captures_wherever_its_model_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "responses_api_models" / "scripted"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(MODEL)
    server = {"entrypoint": "app.py", "placement": placement}
    tree = {
        **observed(tmp_path),
        "policy_model": {"responses_api_models": {"scripted": server}},
    }
    config = load_config(config_paths=[CONFIG], extra=tree, cwd=tmp_path, use_env_yaml=False)

    async def work() -> None:
        async with Fleet(config) as fleet:
            await collected(fleet.client, tmp_path, [TASK])

    asyncio.run(work())

    (row,) = rows_of(tmp_path / "run.jsonl")
    assert row["reward"] == 1.0
    assert row["ng_model_call_capture"]["metrics"]["num_calls"] == 1
    assert row["ng_trajectory"]["model_calls"][0]["response"]["model"] == "tiny"
