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
from palestra.datasets.metrics import DatasetMetrics, differences, metrics_of

__all__ = [
    "AgentDataset",
    "DataSource",
    "DatasetEntry",
    "DatasetMetrics",
    "DatasetType",
    "Download",
    "GitlabIdentifier",
    "HuggingFaceIdentifier",
    "datasets_of_agents",
    "differences",
    "metrics_of",
]
