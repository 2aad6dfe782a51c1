"""Rows and rollouts recorded in the field survive our types unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.schema import RunRequest, VerifyResponse, encode_json, read_jsonl

RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "recorded"


def recorded(name: str) -> list[Any]:
    return sorted(RECORDED.glob(f"*/{name}")) or [
        pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded {name} in {RECORDED}"))
    ]


def folder_name(path: Path | None) -> str:
    return path.parent.name if path is not None else "none"


@pytest.mark.parametrize("path", recorded("example.jsonl"), ids=folder_name)
def test_a_recorded_row_comes_out_as_it_went_in(path: Path) -> None:
    for line in read_jsonl(path):
        assert not line.error
        assert json.loads(encode_json(RunRequest.model_validate(line.row))) == line.row


@pytest.mark.parametrize("path", recorded("rollouts.jsonl"), ids=folder_name)
def test_a_recorded_rollout_comes_out_as_it_went_in(path: Path) -> None:
    for line in read_jsonl(path):
        assert not line.error
        assert json.loads(encode_json(VerifyResponse.model_validate(line.row))) == line.row
