"""Sampling of groups on any client: more members than needed, and fresh tasks for groups without
spread.
"""

from palestra.training.sampling.batches import GroupBatch, dynamic_sample, over_sample
from palestra.training.sampling.queues import task_queue
from palestra.training.sampling.rules import (
    DynamicSampling,
    OverSampling,
    SamplingReport,
)

__all__ = [
    "DynamicSampling",
    "GroupBatch",
    "OverSampling",
    "SamplingReport",
    "dynamic_sample",
    "over_sample",
    "task_queue",
]
