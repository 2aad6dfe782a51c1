"""What the environments are sent of a finished run, to report over it."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from stored_rollouts import ENVIRONMENT, Toy, client_of, stored, write

from palestra.rollouts.aggregate import LARGEST, aggregate

AGENT = {"type": "responses_api_agents", "name": ENVIRONMENT}


def sent(path: Path, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that `compute_metrics` gets."""
    got: list[dict[str, Any]] = []

    class Metrics(Toy):
        seen: ClassVar = got

        def compute_metrics(self, tasks: Any) -> dict[str, Any]:
            self.seen.extend(row for task in tasks for row in task)
            return {"own": len(self.seen)}

    output = write(path / "run.jsonl", rows)
    found = asyncio.run(aggregate(client_of(Metrics), output, path / "metrics.json"))
    assert [(one["agent_ref"], one["agent_metrics"]["own"]) for one in found] == [
        (AGENT, len(rows))
    ]
    return got


def row(number: int, **fields: Any) -> dict[str, Any]:
    return stored(number, agent_ref=AGENT, **fields)


def test_rows_come_in_task_order_without_their_bodies_but_with_usage(tmp_path: Path) -> None:
    usage = {"output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}}
    response = {**stored(0)["response"], "usage": usage}

    second, first = row(1, label="b"), row(0, label="a", response=response)

    assert sent(tmp_path, second, first) == [
        {
            "reward": 0.0,
            "_ng_task_index": number,
            "_ng_rollout_index": 0,
            "agent_ref": AGENT,
            "label": label,
            "response": {"usage": used},
        }
        for number, label, used in ((0, "a", usage), (1, "b", None))
    ]


def test_a_field_that_is_too_large_in_one_row_is_in_none(tmp_path: Path) -> None:
    long = "x" * LARGEST
    rows = [row(0, log="short", steps=[1]), row(1, log=long, steps=[long]), row(2, log="", n=4)]

    got = sent(tmp_path, *rows)

    assert [{"log", "steps"} & one.keys() for one in got] == [set(), set(), set()]
    assert got[2]["n"] == 4


def test_a_long_answer_is_still_voted_with(tmp_path: Path) -> None:
    long = "x" * 2 * LARGEST

    assert sent(tmp_path, row(0, extracted_answer=long))[0]["extracted_answer"] == long


def test_equal_values_are_held_once_and_like_ones_stay_apart(tmp_path: Path) -> None:
    options = [{"A": "yes and no"}]
    first, second, third, fourth = sent(
        tmp_path,
        row(0, options=options, told="said so"),
        row(1, options=options, told="said so"),
        row(2, options=[1]),
        row(3, options=[1.0]),
    )

    assert first["options"] is second["options"]
    assert first["told"] is second["told"]
    assert [type(one["options"][0]) for one in (third, fourth)] == [int, float]
