"""The modules of `nemo_gym` around captured model calls, as the field's folders use them."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi import Body, FastAPI, HTTPException, Request
from hosted_apps import run
from nemo_gym import base_responses_api_model as models
from nemo_gym import path_utils
from nemo_gym import rollout_collection as collection
from nemo_gym import rollout_observability as observability
from nemo_gym.config_types import ModelServerRef
from nemo_gym.openai_utils import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)
from nemo_gym.server_utils import ServerClient
from pydantic import ValidationError
from starlette.testclient import TestClient

from palestra.fleet import Fleet

JsonDict = dict[str, Any]


def response_of(text: str) -> NeMoGymResponse:
    item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text=text)])
    return NeMoGymResponse(id="resp_1", created_at=0, model="tiny", output=[item])


class Model(models.SimpleResponsesAPIModel):
    """Answers the text of the request in upper case; `fail` raises, `refuse` is a 429."""

    config: models.BaseResponsesAPIModelConfig

    async def responses(
        self,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008
    ) -> NeMoGymResponse:
        text = str(body.input)
        if text == "fail":
            raise RuntimeError("it broke")
        if text == "refuse":
            raise HTTPException(429, "later")
        return response_of(text.upper())


class ModelWithRequest(Model):
    """A model whose method declares the HTTP request."""

    async def responses(  # type: ignore[override]
        self,
        request: Request,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008
    ) -> NeMoGymResponse:
        return response_of(request.url.path)


def app_of(tree: Any, kind: type[Model] = Model) -> FastAPI:
    client = MagicMock(spec=ServerClient)
    client.global_config_dict = tree
    config = models.BaseResponsesAPIModelConfig(host="", port=0, entrypoint="", name="policy")
    return kind(config=config, server_client=client).setup_webserver()


def observed(folder: Path) -> JsonDict:
    return {"observability_enabled": True, "model_call_capture_dir": str(folder)}


RESPONSES = "/v1/responses"


# base_responses_api_model


def test_setup_webserver_has_the_capture_layer_as_the_outermost(tmp_path: Path) -> None:
    for tree in (observed(tmp_path), {}, MagicMock()):
        assert app_of(tree).user_middleware[0].cls is models._CaptureMiddleware


@pytest.mark.parametrize(
    "tree",
    [
        {"observability_enabled": True},
        {"observability_enabled": True, "model_call_capture_dir": "relative"},
        {"model_call_capture_dir": "relative"},
    ],
)
def test_setup_webserver_validates_ModelCallCaptureConfig(tree: JsonDict) -> None:  # noqa: N802
    with pytest.raises(ValidationError):
        models.ModelCallCaptureConfig.model_validate(tree)
    with pytest.raises(ValidationError):
        app_of(tree)


def test_ModelCallCaptureConfig_is_off_by_default() -> None:  # noqa: N802
    config = models.ModelCallCaptureConfig()

    assert (config.observability_enabled, config.model_call_capture_dir) == (False, None)


def test_a_prefixed_call_of_a_bare_app_is_captured(tmp_path: Path) -> None:
    client = TestClient(app_of(observed(tmp_path)))

    reply = client.post(f"/ng-rollout/0-1{RESPONSES}", json={"input": "hi"})

    assert reply.json()["output"][0]["content"][0]["text"] == "HI"
    store = models.CaptureStore(tmp_path)
    (call,) = models.read_model_call_records(store, "0-1")
    assert (call.dialect, call.status_code, call.response_id) == ("responses", 200, "resp_1")
    assert (call.model, call.error_category, call.call_index) == ("tiny", None, 0)
    assert call.request == {"input": "hi"}
    assert (call.model_ref.type, call.model_ref.name) == ("responses_api_models", "policy")
    assert models.aggregate_model_call_metrics(store, "0-1")["num_calls"] == 1


def test_a_prefix_works_on_a_bare_app_without_capture() -> None:
    client = TestClient(app_of({}))

    assert client.post(f"/ng-rollout/0-1{RESPONSES}", json={"input": "hi"}).status_code == 200


def test_messages_are_one_captured_call_although_responses_answers_them(tmp_path: Path) -> None:
    client = TestClient(app_of(observed(tmp_path)))
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "model": "m"}

    reply = client.post("/ng-rollout/0-0/v1/messages", json=body)

    assert reply.status_code == 200
    calls = models.read_model_call_records(models.CaptureStore(tmp_path), "0-0")
    assert [call.dialect for call in calls] == ["messages"]


def test_a_refused_call_is_captured_with_its_status(tmp_path: Path) -> None:
    client = TestClient(app_of(observed(tmp_path)))

    assert client.post(f"/ng-rollout/0-0{RESPONSES}", json={"input": "refuse"}).status_code == 429

    (call,) = models.read_model_call_records(models.CaptureStore(tmp_path), "0-0")
    assert (call.status_code, call.error_category) == (429, "rate_limit")


def test_a_failing_method_is_captured_and_its_exception_passes(tmp_path: Path) -> None:
    client = TestClient(app_of(observed(tmp_path)))

    with pytest.raises(RuntimeError, match="it broke"):
        client.post(f"/ng-rollout/0-0{RESPONSES}", json={"input": "fail"})

    (call,) = models.read_model_call_records(models.CaptureStore(tmp_path), "0-0")
    assert call.error_category == "exception"


def events_of(text: str) -> list[JsonDict]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_streamed_responses_are_synthesized_and_captured(tmp_path: Path) -> None:
    client = TestClient(app_of(observed(tmp_path)))

    reply = client.post(f"/ng-rollout/0-0{RESPONSES}", json={"input": "hi", "stream": True})

    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply.text)
    types = [event["type"] for event in events]
    assert (types[0], types[-1]) == ("response.created", "response.completed")
    assert "response.output_text.delta" in types
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "HI"
    (call,) = models.read_model_call_records(models.CaptureStore(tmp_path), "0-0")
    assert (call.response["id"], call.error_category) == ("resp_1", None)
    assert call.latency_ttft_ms is not None
    assert call.response_raw == reply.text


@pytest.mark.parametrize("text", ["fail", "refuse"])
def test_a_failing_streamed_response_ends_with_response_failed(text: str) -> None:
    client = TestClient(app_of({}))

    reply = client.post(RESPONSES, json={"input": text, "stream": True})

    last = events_of(reply.text)[-1]
    assert (reply.status_code, last["type"]) == (200, "response.failed")
    assert last["response"]["error"]["message"]


def test_a_streamed_request_that_does_not_fit_is_refused() -> None:
    client = TestClient(app_of({}))

    assert client.post(RESPONSES, json={"stream": True, "temperature": "x"}).status_code == 422


def test_streamed_chat_completions_are_synthesized() -> None:
    class Chat(Model):
        async def chat_completions(self, body: Any = Body()) -> Any:  # noqa: B008
            assert "stream" not in body
            message = {"role": "assistant", "content": "hi"}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return {"id": "c", "created": 0, "model": "tiny", "choices": [choice]}

    client = TestClient(app_of({}, Chat))
    body = {"messages": [], "stream": True}

    reply = client.post("/v1/chat/completions", json=body)

    assert reply.text.endswith("data: [DONE]\n\n")
    assert events_of(reply.text)[0]["choices"][0]["delta"]["content"] == "hi"


def test_responses_gets_the_request_only_when_it_declares_it() -> None:
    client = TestClient(app_of({}, ModelWithRequest))

    for body in ({"input": "q"}, {"input": "q", "stream": True}):
        assert RESPONSES in client.post(RESPONSES, json=body).text


HOSTED = """
class Echo(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        return NeMoGymResponse(id="r", created_at=0, model="echo", output=[])
"""


def test_a_hosted_model_server_captures_calls_with_and_without_a_prefix(tmp_path: Path) -> None:
    from palestra.errors import RowIdentity
    from palestra.transport import CallContext, calling

    folder = tmp_path / "capture"

    async def check(fleet: Fleet) -> None:
        await fleet.client.post("echo", f"/ng-rollout/3-0{RESPONSES}", json={"input": "x"})
        await fleet.client.post("echo", RESPONSES, json={"input": "x"})
        with calling(CallContext(row=RowIdentity(4, 1, 2))):
            await fleet.client.post("echo", RESPONSES, json={"input": "x"})

    run(tmp_path, {"responses_api_models/echo": HOSTED}, check, top_level=observed(folder))

    names = {path.name for path in folder.iterdir()}
    assert names == {"3-0.capture.jsonl", "4-1-a1.capture.jsonl"}


# rollout_observability


def test_records_are_told_apart_by_their_kind() -> None:
    bundle = observability.AgentObservationBundle(
        source="mine",
        records=[
            {"kind": "agent_invocation", "invocation_id": "i"},
            {"kind": "tool_call", "tool_call_id": "t", "timing_source": "executor"},
            {"kind": "context_compaction", "tokens_before": 9},
            {"kind": "sandbox", "exit_code": 0},
        ],
        gaps=[{"code": "no_timing", "detail": "why"}],
    )

    assert [type(record) for record in bundle.records] == [
        observability.AgentInvocation,
        observability.ToolCallObservation,
        observability.ContextCompactionObservation,
        observability.SandboxObservation,
    ]
    assert bundle.gaps == [observability.ObservationGap(code="no_timing", detail="why")]
    assert observability.AgentObservationBundle.model_validate(bundle.model_dump()) == bundle


@pytest.mark.parametrize(
    "make",
    [
        lambda: observability.AgentObservationBundle(source="s", records=[{"kind": "other"}]),
        lambda: observability.AgentInvocation(invocation_id="i", unknown=1),
        lambda: observability.ObservationGap(reason="x"),
        lambda: observability.ToolCallObservation(timing_source="guess"),
        observability.ModelCallRef,
        lambda: observability.ModelCallRef(response_id="r"),
    ],
)
def test_records_that_are_wrong_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        make()


def test_assignments_are_validated() -> None:
    gap = observability.ObservationGap(code="a")

    with pytest.raises(ValidationError):
        gap.code = 3  # type: ignore[assignment]


def test_ModelCallRef_takes_an_id_or_a_server_and_a_response() -> None:  # noqa: N802
    ref = observability.ModelCallRef(
        model_ref=ModelServerRef(name="policy"),
        response_id="r",
    )

    assert ref.model_ref is not None
    assert ref.model_ref.name == "policy"
    assert observability.ModelCallRef(model_call_id="c").model_call_id == "c"


def test_AgentEpisode_is_a_frozen_dataclass() -> None:  # noqa: N802
    bundle = observability.AgentObservationBundle(source="s")
    episode = observability.AgentEpisode(response="r", observations=bundle)

    assert (episode.response, episode.observations) == ("r", bundle)
    with pytest.raises(FrozenInstanceError):
        episode.response = "other"  # type: ignore[misc]


def test_join_model_call_observations_fills_in_the_captured_id() -> None:
    policy = {"type": "responses_api_models", "name": "policy"}
    ref = {"model_ref": policy, "response_id": "r"}
    bundle = observability.AgentObservationBundle(
        source="s", records=[{"kind": "context_compaction", "before_model_call": ref}]
    )
    call = models.ModelCallRecord(model_call_id="c", model_ref=policy, response_id="r")

    joined = observability.join_model_call_observations(bundle, [call])

    compaction = joined.records[0]
    assert isinstance(compaction, observability.ContextCompactionObservation)
    assert compaction.before_model_call is not None
    assert compaction.before_model_call.model_call_id == "c"


def test_TrajectoryRecord_refuses_unknown_fields_and_turns_below_1() -> None:  # noqa: N802
    identity = {"task_id": "t", "rollout_id": "r"}

    assert observability.TrajectoryRecord(**identity).schema_version == "1.0"
    with pytest.raises(ValidationError):
        observability.TrajectoryRecord(**identity, other=1)
    with pytest.raises(ValidationError):
        observability.TrajectoryRecord(**identity, turns=[{"turn_no": 0}])


# rollout_collection and path_utils


def test_the_keys_of_result_rows() -> None:
    assert collection.NG_TERMINAL_KEY == "_ng_failure_terminal"
    assert collection.NG_FAILURE_TERMINAL_KEY == collection.NG_TERMINAL_KEY
    assert collection.NG_TRAJECTORY_KEY == "ng_trajectory"
    assert collection.NG_FAILURE_CLASS_KEY == "_ng_failure_class"
    assert collection.NG_NO_PERSIST_KEY == "_ng_no_persist"


@pytest.mark.parametrize("name", ["out/run.jsonl", "run.jsonl", "a.b.jsonl"])
def test_failures_path_for_is_beside_the_output(name: str) -> None:
    path = Path(name)
    expected = path.with_name(f"{path.stem}_failures.jsonl")

    assert path_utils.failures_path_for(path) == expected
    assert collection._failures_path_for(path) == expected


@pytest.mark.parametrize(
    ("text", "attempts", "warns"),
    [(None, 3, False), ("", 3, False), ("5", 5, False), ("0", 3, True), ("many", 3, True)],
)
def test_get_max_rollout_attempts_reads_the_environment_when_called(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    attempts: int,
    warns: bool,
) -> None:
    monkeypatch.delenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", raising=False)
    if text is not None:
        monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", text)

    assert collection._get_max_rollout_attempts() == attempts
    assert ("WARNING" in capsys.readouterr().out) is warns


def test_attach_trajectory_record_uses_the_functions_of_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0}
    result: JsonDict = {"ng_model_call_capture": {"calls": [{"request": 1}]}}
    monkeypatch.setattr(
        collection, "_build_trajectory_record", MagicMock(side_effect=KeyError("x"))
    )

    collection._attach_trajectory_record(row, result)

    gap = result["ng_model_call_capture"]["gaps"][0]
    assert (gap["code"], gap["detail"]) == ("trajectory_projection_failed", "KeyError")
    assert result["ng_model_call_capture"]["calls"] == [{"request": 1}]


def test_strip_capture_payloads_leaves_the_rest_of_a_call() -> None:
    result: JsonDict = {"ng_model_call_capture": {"calls": [{"request": 1, "model": "m"}]}}

    collection._strip_capture_payloads(result)

    assert result == {"ng_model_call_capture": {"calls": [{"model": "m"}]}}


def test_RolloutCollectionConfig_declares_its_fields() -> None:  # noqa: N802
    config = collection.RolloutCollectionConfig(
        input_jsonl_fpath="a", output_jsonl_fpath="b", policy_model_name="kept"
    )

    assert (config.agent_name, config.limit, config.num_repeats) == (None, None, 1)
    assert (config.resume_from_cache, config.disable_aggregation) == (False, False)
    assert (config.upload_rollouts, config.num_samples_in_parallel) == (True, None)
    assert config.responses_create_params == {}
    assert config.model_extra == {"policy_model_name": "kept"}


@pytest.mark.parametrize("repeats", [0, -1, "many", {}, {"agent": 0}])
def test_RolloutCollectionConfig_refuses_bad_num_repeats(repeats: Any) -> None:  # noqa: N802
    with pytest.raises(ValueError, match="num_repeats"):
        collection.RolloutCollectionConfig(
            input_jsonl_fpath="a", output_jsonl_fpath="b", num_repeats=repeats
        )


class Helper(collection.RolloutCollectionHelper):
    """Answers `/run` in this process, and keeps what was asked."""

    asked: list[JsonDict] = []  # noqa: RUF012
    aggregated: list[int] = []  # noqa: RUF012

    def run_examples(
        self, examples: Any, head_server_config: Any = None, semaphore: Any = None
    ) -> Any:
        async def answer(row: JsonDict) -> tuple[JsonDict, JsonDict]:
            self.asked.append(row)
            if row["number"] == 1 and "_ng_attempt_index" not in row:
                return row, {"_ng_failure_class": "judge_failed", "reward": 0.0}
            if row["number"] == 2:
                return row, {"_ng_no_persist": True}
            return row, {"reward": 1.0, "response": {"usage": {"output_tokens": 3}}}

        return asyncio.as_completed([answer(row) for row in examples])

    async def _call_aggregate_metrics(
        self, results: list[JsonDict], rows: list[JsonDict], output_fpath: Path
    ) -> None:
        self.aggregated.append(len(results))


def config_for(folder: Path, **settings: Any) -> collection.RolloutCollectionConfig:
    rows = [
        {
            "responses_create_params": {"input": f"q{number}"},
            "number": number,
            "agent_ref": {"type": "responses_api_agents", "name": "mine"},
        }
        for number in range(3)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return collection.RolloutCollectionConfig(
        input_jsonl_fpath=str(folder / "in.jsonl"),
        output_jsonl_fpath=str(folder / "out.jsonl"),
        **settings,
    )


def rows_of(path: Path) -> list[JsonDict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_run_from_config_collects_writes_and_aggregates(tmp_path: Path) -> None:
    helper = Helper()

    results = asyncio.run(helper.run_from_config(config_for(tmp_path)))

    assert [result["_ng_task_index"] for result in results] == [0]
    assert results == rows_of(tmp_path / "out.jsonl")
    assert results[0]["agent_ref"]["name"] == "mine"
    (failure,) = rows_of(tmp_path / "out_failures.jsonl")
    assert (failure["_ng_task_index"], failure["_ng_failure_class"]) == (1, "judge_failed")
    assert len(rows_of(tmp_path / "out_materialized_inputs.jsonl")) == 3
    assert helper.aggregated == [1]


def test_run_from_config_resumes_what_has_no_result(tmp_path: Path) -> None:
    asyncio.run(Helper().run_from_config(config_for(tmp_path)))
    helper = Helper()

    results = asyncio.run(helper.run_from_config(config_for(tmp_path, resume_from_cache=True)))

    assert sorted(row["number"] for row in helper.asked) == [1, 2]
    assert [row.get("_ng_attempt_index") for row in helper.asked if row["number"] == 1] == [1]
    assert [result["_ng_task_index"] for result in results] == [0, 1]
    assert results[1]["_ng_attempt_index"] == 1


def test_run_from_config_takes_the_rows_of_preprocess_rows_from_config_and_load_from_cache(
    tmp_path: Path,
) -> None:
    class Chosen(Helper):
        def _preprocess_rows_from_config(self, config: Any) -> list[JsonDict]:
            return super()._preprocess_rows_from_config(config)[2:]

        def _load_from_cache(self, config: Any) -> tuple[list[JsonDict], list[JsonDict]]:
            return [], [{"_ng_task_index": 7, "_ng_rollout_index": 0, "reward": 0.5}]

    fresh = asyncio.run(Chosen().run_from_config(config_for(tmp_path)))
    (tmp_path / "out.jsonl").touch()
    resumed = asyncio.run(Chosen().run_from_config(config_for(tmp_path, resume_from_cache=True)))

    assert fresh == []
    assert [row["number"] for row in rows_of(tmp_path / "out_materialized_inputs.jsonl")] == [2]
    assert [result["reward"] for result in resumed] == [0.5]


def test_run_from_config_merges_captured_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "capture"
    monkeypatch.setattr(collection, "get_global_config_dict", lambda: observed(folder))

    class Calling(Helper):
        def run_examples(self, examples: Any, *args: Any, **how: Any) -> Any:
            models.CaptureStore(folder).record("0-0", {"dialect": "chat", "request": {"a": 1}})
            return super().run_examples(examples, *args, **how)

    models.CaptureStore(folder).record("0-0", {"dialect": "chat", "request": {"old": 1}})
    (result,) = asyncio.run(Calling().run_from_config(config_for(tmp_path)))

    assert len(result["ng_model_call_capture"]["calls"]) == 1
    assert result["ng_trajectory"]["model_calls"][0]["request"] == {"a": 1}


def test_run_from_config_asks_agents_for_metrics_without_attachments(tmp_path: Path) -> None:
    posted: list[Any] = []

    class Answer:
        ok, status = True, 200

        async def read(self) -> bytes:
            return b'{"agent_metrics": {}, "key_metrics": {}, "group_level_metrics": []}'

    class Client:
        async def post(self, server: str, path: str, json: Any) -> Answer:
            posted.append((server, path, json))
            return Answer()

    class Asking(Helper):
        def setup_server_client(self, head_server_config: Any = None) -> Any:
            return Client()

        _call_aggregate_metrics = collection.RolloutCollectionHelper._call_aggregate_metrics

    asyncio.run(Asking().run_from_config(config_for(tmp_path)))

    ((server, path, body),) = posted
    assert (server, path) == ("mine", "/aggregate_metrics")
    (row,) = body["verify_responses"]
    assert row["response"] == {"usage": {"output_tokens": 3}}
    assert "responses_create_params" not in row
    (aggregate,) = json.loads((tmp_path / "out_aggregate_metrics.json").read_text())
    assert aggregate["agent_ref"]["name"] == "mine"
