"""Two hundred functions of authors, half of them bad: each ends in its class and within its bounds."""

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from author_kinds import BREAKS, KINDS, ending_of, kinds
from fake_upstream import Asked, Deed, FakeUpstream, completion, json_reply, serving
from fault_plan import prompt_of
from faults_world import Done, World

from palestra.schema import FAILURE_TERMINAL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="how workers are stopped is Linux's"),
]

HERE = Path(__file__).parent
LIMIT_S = 6.0
BEYOND_S = 5.0
"""What a rollout may take beyond its limit."""
PLACES = ("seed", "tool", "verify")
FOLDER = "resources_servers/author_methods/configs/author_methods.yaml"


def one_call(asked: Asked) -> Deed:
    """A tool call, where there is a tool, and then a text."""
    if asked.body.get("tools") and not asked.after_tool:
        call = {"name": "act", "arguments": "{}"}
        return json_reply(completion("", [{"id": "c", "type": "function", "function": call}]))
    return json_reply(completion("4"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "project"
    shutil.copytree(HERE / "authors", folder)
    (folder / ".run").mkdir()
    return World(folder)


def ended(world: World, output: str) -> dict[int, str]:
    """How each task ended. Fails for one that ended twice, or took too long."""
    scored = world.rows(f"{output}.jsonl")
    failed = [row for row in world.rows(f"{output}_failures.jsonl") if row[FAILURE_TERMINAL]]
    tasks = Counter(row["_ng_task_index"] for row in (*scored, *failed))
    assert set(tasks.values()) == {1}
    slow = [row for row in failed if row["elapsed_s"] > LIMIT_S + BEYOND_S]
    assert slow == []
    assert {row["reward"] for row in scored} == {1.0}
    classes = {row["_ng_task_index"]: row["_ng_failure_class"] for row in failed}
    return {row["_ng_task_index"]: "scored" for row in scored} | classes


def test_one_file(world: World) -> None:
    with serving(FakeUpstream(one_call)) as url:
        done = world.run(
            *("eval", "author_functions.py", "--model", f"vllm:tiny@{url}", "--max-attempts", "1"),
            *("--rollout-timeout", str(LIMIT_S), "--output", "run.jsonl"),
            timeout_s=80,
        )

    assert done.code == 1, done.said
    rows = world.rows("run_materialized_inputs.jsonl")
    assert ended(world, "run") == {
        row["_ng_task_index"]: ending_of("verify", row["kind"]) for row in rows
    }


@pytest.mark.parametrize("placement", ["embedded", "process"])
def test_a_folder(world: World, placement: str) -> None:
    tasks = rows_of(60, seed=2 if placement == "embedded" else 3)
    world.write_rows("tasks.jsonl", tasks)

    done = collected(world, placement)

    assert done.code == 1, done.said
    expected = {n: ending_of(row["place"], row["kind"]) for n, row in enumerate(tasks)}
    assert ended(world, "run") == expected


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = [{"type": "function", "name": "act", "parameters": schema, "strict": True}]
    return [
        {
            "responses_create_params": {"input": prompt_of(n), "tools": tools},
            "place": PLACES[n % 3],
            "kind": kind,
        }
        for n, kind in enumerate(kinds(count, seed))
    ]


def collected(world: World, placement: str) -> Done:
    with serving(FakeUpstream(one_call)) as url:
        world.base_url = url
        return world.run(
            *("collect", "--config", FOLDER, *world.policy()),
            *("--config", "responses_api_models/vllm_model/configs/vllm_model.yaml"),
            *("--agent", "author_methods_agent", "--input", "tasks.jsonl"),
            *("--output", "run.jsonl", "--max-attempts", "1"),
            f"++author_methods.resources_servers.author_methods.placement={placement}",
            f"+rollout_timeout={LIMIT_S}",
            timeout_s=80,
        )


def test_every_kind_is_among_them() -> None:
    drawn = {*kinds(80, 1), *kinds(60, 2), *kinds(60, 3)}

    assert drawn == set(KINDS)
    assert len(BREAKS) == 7
