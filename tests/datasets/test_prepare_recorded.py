"""The field's own datasets, prepared, beside the metrics that the field has of them."""

import json
import shutil
from pathlib import Path

import pytest
from preparations import read_rows

from palestra.datasets import AgentDataset, DatasetEntry
from palestra.datasets.preparing import PrepareSettings, in_scope, locate, prepare_datasets
from palestra.errors import InputDataError

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
FOLDERS = sorted(path.parent for path in RECORDED.glob("*/example_metrics.json"))
OF_OTHER_ROWS = {"example_mcp_weather": "Json-dumped", "text_to_sql": "Json-dumped"}
"""Whose recorded numbers are not those of the rows beside them, and what differs first."""

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
    prepare_datasets(located, PrepareSettings(here / "out"), doors={}, tell=print)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_our_numbers_of_a_recorded_dataset_are_the_recorded_ones(
    folder: Path, tmp_path: Path
) -> None:
    if differing := OF_OTHER_ROWS.get(folder.name):
        with pytest.raises(InputDataError, match=differing):
            prepared(folder, tmp_path)
        return

    prepared(folder, tmp_path)

    rows = read_rows(tmp_path / "out" / "example.jsonl")
    assert [one.pop("agent_ref")["name"] for one in rows] == [folder.name] * len(rows)
    before = [{**one} for one in read_rows(tmp_path / "example.jsonl")]
    for one in before:
        one.pop("agent_ref", None)
    assert rows == before
