"""A recorded run answered again: by identity and turn, and never by guessing."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from palestra.errors import InputDataError, Layer, ModelRejectedRow, Outcome, RowIdentity
from palestra.responses_api_models.replay_model.app import ReplayModel, ReplayModelConfig
from palestra.schema import Response, ResponseCreateParams, to_plain
from palestra.server import Session
from palestra.transport import CallContext, HttpClient, ServerClient, calling

TASK = [{"role": "user", "content": "weather?"}]
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]}
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def called(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id: str, text: str = "sunny") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def said(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "content": [part], **more}


TRAJECTORY = [THOUGHT, called("1"), called("2"), output("1"), output("2"), said("coat")]


def recorded(
    trajectory: Sequence[dict[str, Any]], *, task: int = 0, rollout: int = 0, **response: Any
) -> dict[str, Any]:
    answer = {"id": "r", "created_at": 1, "model": "m", "output": list(trajectory), "usage": USAGE}
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "responses_create_params": {"input": TASK},
        "response": {**answer, **response},
        "reward": 1.0,
    }


def replay(folder: Path, *rows: dict[str, Any], **settings: Any) -> ReplayModel:
    path = folder / "rollouts.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    config = ReplayModelConfig(name="policy_model", rollouts=str(path), **settings)
    return ReplayModel(config=config, server_client=ServerClient({}, HttpClient()))


def ask(
    server: ReplayModel, items: Sequence[dict[str, Any]], task: int = 0, rollout: int = 0
) -> Response:
    params = ResponseCreateParams.model_validate({"input": list(items)})
    with calling(CallContext(row=RowIdentity(task=task, rollout=rollout))):
        return asyncio.run(server.responses(params, Session("s")))


def test_each_turn_is_answered_as_it_was(tmp_path: Path) -> None:
    server = replay(tmp_path, recorded(TRAJECTORY))

    first = ask(server, TASK)
    second = ask(server, [*TASK, *TRAJECTORY[:5]])

    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    assert second.output_text == "coat"


def test_usage_and_the_reason_of_an_end_come_with_the_last_turn(tmp_path: Path) -> None:
    cut = {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}
    server = replay(tmp_path, recorded(TRAJECTORY, **cut))

    first = ask(server, TASK)
    last = ask(server, [*TASK, *TRAJECTORY[:5]])

    assert (first.usage, first.incomplete_details, first.status) == (None, None, "completed")
    assert last.usage is not None
    assert (last.usage.total_tokens, last.status) == (5, "incomplete")


def test_rollouts_are_told_apart_by_their_indices(tmp_path: Path) -> None:
    rows = [
        recorded([said(f"{task} {rollout}")], task=task, rollout=rollout)
        for task in range(2)
        for rollout in range(2)
    ]

    assert ask(replay(tmp_path, *rows), TASK, task=1, rollout=0).output_text == "1 0"


def test_token_ids_come_back_and_part_turns_that_nothing_else_does(tmp_path: Path) -> None:
    ids = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    trajectory = [said("a", **ids), said("b", **ids)]
    server = replay(tmp_path, recorded(trajectory))

    first = ask(server, TASK)

    assert first.output_text == "a"
    assert to_plain(first.output[-1])["generation_token_ids"] == [2]
    assert ask(server, [*TASK, trajectory[0]]).output_text == "b"


@pytest.mark.parametrize(
    ("items", "task", "says"),
    [
        (TASK, 7, "no rollout is recorded for task 7, rollout 0"),
        ([*TASK, *TRAJECTORY], 0, "has 2 recorded turns, but the agent requested turn 3"),
        ([{"role": "user", "content": "other"}], 0, "is not the recorded one"),
        (
            [*TASK, *TRAJECTORY[:3], output("1", "rain"), output("2")],
            0,
            "conversation before turn 2",
        ),
    ],
)
def test_a_miss_is_a_failure_that_says_what_is_missing(
    tmp_path: Path, items: list[dict[str, Any]], task: int, says: str
) -> None:
    with pytest.raises(ModelRejectedRow, match=says) as caught:
        ask(replay(tmp_path, recorded(TRAJECTORY)), items, task=task)

    assert (caught.value.outcome, caught.value.layer) == (Outcome.DATA_ERROR, Layer.MODEL)
    assert not caught.value.retriable


def test_without_strictness_only_the_turn_counts(tmp_path: Path) -> None:
    server = replay(tmp_path, recorded(TRAJECTORY), strict=False)
    items = [*TASK, *TRAJECTORY[:3], output("1", "rain"), output("2")]

    assert ask(server, items).output_text == "coat"


def test_a_request_that_belongs_to_no_rollout_is_a_miss(tmp_path: Path) -> None:
    server = replay(tmp_path, recorded(TRAJECTORY))

    with pytest.raises(ModelRejectedRow, match="does not say which rollout"):
        asyncio.run(server.responses(ResponseCreateParams(input="q"), Session("s")))


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n"])
def test_a_file_without_rollouts_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    server = replay(tmp_path)
    (tmp_path / "rollouts.jsonl").write_text(text)

    with pytest.raises(InputDataError):
        asyncio.run(server.start())


def test_a_rollout_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    row = recorded(TRAJECTORY)

    with pytest.raises(InputDataError, match="line 2: task 0, rollout 0 is recorded twice"):
        asyncio.run(replay(tmp_path, row, row).start())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    server = replay(tmp_path)
    (tmp_path / "rollouts.jsonl").unlink()

    with pytest.raises(InputDataError, match=r"rollouts\.jsonl cannot be read"):
        asyncio.run(server.start())


@pytest.mark.timeout(20)
def test_a_slow_disk_holds_up_nobody_else(tmp_path: Path) -> None:
    server = replay(tmp_path, recorded(TRAJECTORY))
    path = tmp_path / "rollouts.jsonl"

    async def run() -> None:
        await server.start()
        path.unlink()
        os.mkfifo(path)  # whoever opens it for reading waits for a writer
        with calling(CallContext(row=RowIdentity(task=0, rollout=0))):
            asked = server.responses(ResponseCreateParams(input="hi"), Session("s"))
            asking = asyncio.create_task(asked)
        await asyncio.sleep(0)
        writer = os.open(path, os.O_RDWR)  # of its own, it waits for nobody
        with pytest.raises(ModelRejectedRow, match="has changed since it was scanned"):
            await asking
        os.close(writer)

    asyncio.run(run())
