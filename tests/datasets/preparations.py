"""Datasets on disk, and their preparation, for tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palestra.datasets import (
    AgentDataset,
    DatasetEntry,
    Located,
    PreparedFile,
    PrepareSettings,
    RowEndpoint,
    in_scope,
    locate,
    prepare_datasets,
)


def row(prompt: str = "2 + 2?", **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": prompt}, **fields}


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    """Rows as JSONL; texts as lines of their own making."""
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def dataset(path: Path, agent: str = "agent", **entry: Any) -> AgentDataset:
    given = {"name": "set", "type": "train", "license": "MIT", "jsonl_fpath": str(path), **entry}
    return AgentDataset(agent, DatasetEntry.model_validate(given))


def located(*datasets: AgentDataset) -> list[Located]:
    return locate(in_scope(datasets, "train_preparation"), Path)


def prepare(
    output: Path,
    *datasets: AgentDataset,
    doors: Mapping[str, Sequence[RowEndpoint]] | None = None,
    **settings: Any,
) -> list[PreparedFile]:
    return prepare_datasets(
        located(*datasets),
        PrepareSettings(output, **settings),
        doors=doors or {},
    )
