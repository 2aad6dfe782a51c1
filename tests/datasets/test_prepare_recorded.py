"""The field's own datasets, prepared, beside the metrics that the field has of them."""

import json
import shutil
from pathlib import Path

import pytest
from preparations import read_rows

from palestra.datasets import (
    AgentDataset,
    DatasetEntry,
    PrepareSettings,
    in_scope,
    locate,
    prepare_datasets,
)
from palestra.datasets.metrics import contradictions
from palestra.errors import InputDataError

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
FOLDERS = sorted(path.parent for path in RECORDED.glob("*/example_metrics.json"))
WORDS = "Json-dumped number of words (proxy for token count)"
OF_OTHER_ROWS = {"example_mcp_weather": 3.0, "text_to_sql": 2.0}
"""Whose recorded numbers are those of earlier rows, and how many words each of these had more.

It is the rows that have changed, not the way of counting: requests of the shape of text_to_sql's, a
list of messages with a role and a content, are in ten of the other folders, and there the numbers
agree; a request of three pairs of braces and one sentence leaves nothing to count otherwise.
"""

pytestmark = pytest.mark.skipif(not FOLDERS, reason=f"nothing is recorded in {RECORDED}")


def prepared(folder: Path, here: Path) -> None:
    for name in ("example.jsonl", "example_metrics.json"):
        shutil.copy(folder / name, here / name)
        (here / name).chmod(0o644)
    stored = json.loads((here / "example_metrics.json").read_text())
    known = DatasetEntry.model_fields.keys() & stored.keys()
    entry = DatasetEntry.model_validate({name: stored[name] for name in known})
    datasets = in_scope([AgentDataset(folder.name, entry)], "example_validation")
    located = locate(datasets, lambda _: here / "example.jsonl")
    prepare_datasets(located, PrepareSettings(here / "out"), doors={})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_our_numbers_of_a_recorded_dataset_are_the_recorded_ones(
    folder: Path, tmp_path: Path
) -> None:
    if differing := OF_OTHER_ROWS.get(folder.name):
        with pytest.raises(InputDataError):
            prepared(folder, tmp_path)
        recorded = json.loads((folder / "example_metrics.json").read_text())
        ours = json.loads((tmp_path / "example_metrics_conflict.json").read_text())
        for name in ("Average", "Min", "Max"):
            assert recorded[WORDS].pop(name) - ours[WORDS][name] == pytest.approx(differing)
        assert contradictions(recorded, ours) == []  # the deviation is the same, too
        return

    prepared(folder, tmp_path)

    rows = read_rows(tmp_path / "out" / "example.jsonl")
    assert [one.pop("agent_ref")["name"] for one in rows] == [folder.name] * len(rows)
    before = [{**one} for one in read_rows(tmp_path / "example.jsonl")]
    for one in before:
        one.pop("agent_ref", None)
    assert rows == before
