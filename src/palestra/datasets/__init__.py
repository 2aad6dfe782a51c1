"""Datasets of task rows: which there are, and what can be said of one in a few numbers."""

from palestra.datasets.entries import (
    AgentDataset,
    DatasetEntry,
    DatasetType,
    DataSource,
    Download,
    GitlabIdentifier,
    HuggingFaceIdentifier,
    datasets_of_agents,
)
from palestra.datasets.metrics import DatasetMetrics, contradictions, differences, metrics_of
from palestra.datasets.problems import BadRows, RowProblems, line_ranges
from palestra.datasets.prompts import PromptTemplate, fill_row, load_prompt
from palestra.datasets.request_models import (
    DoorKeeper,
    RowEndpoint,
    doors_in,
    published_body,
    rows_are_whole,
)

__all__ = [
    "AgentDataset",
    "BadRows",
    "DataSource",
    "DatasetEntry",
    "DatasetMetrics",
    "DatasetType",
    "DoorKeeper",
    "Download",
    "GitlabIdentifier",
    "HuggingFaceIdentifier",
    "PromptTemplate",
    "RowEndpoint",
    "RowProblems",
    "contradictions",
    "datasets_of_agents",
    "differences",
    "doors_in",
    "fill_row",
    "line_ranges",
    "load_prompt",
    "metrics_of",
    "published_body",
    "rows_are_whole",
]
