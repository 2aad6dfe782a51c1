"""Datasets of task rows: what can be said of one in a few numbers."""

from palestra.datasets.metrics import DatasetMetrics, differences, metrics_of

__all__ = ["DatasetMetrics", "differences", "metrics_of"]
