"""What docs/topics/group-sampling.md shows is true: its program runs, and its names are all there are."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from outcome_samples import completed
from training_world import trainer

from palestra.training import Fault, Key, SamplingReport, batch_metrics

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "topics" / "group-sampling.md"
TEXT = DOCUMENT.read_text()
ROW = {"responses_create_params": {"input": "1 + 1 ="}}


def documented(prefix: str) -> set[str]:
    """The metrics under a prefix, as the table lists them."""
    cells = re.findall(rf"^\| `{prefix}/(.*?)\|", TEXT, re.MULTILINE)
    return {name.strip("` ") for cell in cells for name in cell.split(",")}


@pytest.mark.anyio
async def test_the_program_of_the_page_samples_and_trains() -> None:
    def script(key: Key, attempt: int) -> float:
        return float(key.task_id != 0 and key.rollout_index % 2)

    found = re.search(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], str(DOCUMENT), "exec"), names)
    trained: list[float] = []
    async with trainer(script, in_flight=4) as (client, _, _):
        rule = replace(names["RULE"], groups=2, max_fresh_groups=1)
        metrics = await names["epoch"](
            client, [ROW] * 3, lambda flat, value: trained.append(value), rule
        )

    assert len(trained) == 16
    assert sum(trained) == pytest.approx(0.0)
    assert metrics["sampling/returned_groups"] == 2


@pytest.mark.parametrize("prefix", ["rollouts", "time", "tokens", "weights", "reward"])
def test_the_page_lists_every_metric(prefix: str) -> None:
    metrics = batch_metrics([completed()], weight_version=9)

    names = {name.removeprefix(f"{prefix}/") for name in metrics if name.startswith(f"{prefix}/")}
    assert documented(prefix) == names


def test_the_page_lists_every_fault_and_count() -> None:
    counts = {field.name for field in msgspec.structs.fields(SamplingReport)} - {"needed"}

    assert set(re.findall(r"^\| `(\w+)` \| ", TEXT, re.MULTILINE)) >= set(Fault)
    assert {name for name in counts if f"`{name}`" not in TEXT} == set()
