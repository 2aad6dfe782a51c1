"""Rollouts for a trainer: N requested, N returned, or an error that says why.

No trainer, tensor or cluster library is imported here; adapters to them are in
`palestra.training.adapters`.
"""

from palestra.training.attached import AttachedServers, attached
from palestra.training.batch_metrics import BatchMeter, batch_metrics, metrics_line
from palestra.training.client import RolloutClient
from palestra.training.contract import RolloutSource, Submission
from palestra.training.errors import (
    BatchFailed,
    Cause,
    IncompleteRollouts,
    InvalidLogprobs,
    NotEnoughSpread,
    NoTokenIds,
    TokenDiscontinuity,
)
from palestra.training.fleet_pool import FleetPool
from palestra.training.groups import Advantages, Fault, Group, MemberFault
from palestra.training.handle import Handle
from palestra.training.health import Health
from palestra.training.outcomes import (
    Chain,
    Completed,
    Evidence,
    Failed,
    FailureClass,
    Flat,
    Outcome,
    Summary,
    Timings,
    TokenUsage,
    Turn,
    outcome_from_json,
    outcome_to_json,
)
from palestra.training.policies import OnIncomplete, Outage, Policies
from palestra.training.raw import RawRow
from palestra.training.requests import Key, RolloutRequest
from palestra.training.sampling import (
    DynamicSampling,
    GroupBatch,
    OverSampling,
    SamplingReport,
    dynamic_sample,
    over_sample,
    task_queue,
)
from palestra.training.servers import OpenServers, Servers
from palestra.training.service import RemoteRolloutClient, serve_rollouts, service_token
from palestra.training.settings import (
    Attempts,
    ClientSettings,
    OnStale,
    OnViolation,
)
from palestra.training.sync import LoopThread, SyncGroupBatch, SyncHandle, SyncRolloutClient

__all__ = [
    "Advantages",
    "AttachedServers",
    "Attempts",
    "BatchFailed",
    "BatchMeter",
    "Cause",
    "Chain",
    "ClientSettings",
    "Completed",
    "DynamicSampling",
    "Evidence",
    "Failed",
    "FailureClass",
    "Fault",
    "Flat",
    "FleetPool",
    "Group",
    "GroupBatch",
    "Handle",
    "Health",
    "IncompleteRollouts",
    "InvalidLogprobs",
    "Key",
    "LoopThread",
    "MemberFault",
    "NoTokenIds",
    "NotEnoughSpread",
    "OnIncomplete",
    "OnStale",
    "OnViolation",
    "OpenServers",
    "Outage",
    "Outcome",
    "OverSampling",
    "Policies",
    "RawRow",
    "RemoteRolloutClient",
    "RolloutClient",
    "RolloutRequest",
    "RolloutSource",
    "SamplingReport",
    "Servers",
    "Submission",
    "Summary",
    "SyncGroupBatch",
    "SyncHandle",
    "SyncRolloutClient",
    "Timings",
    "TokenDiscontinuity",
    "TokenUsage",
    "Turn",
    "attached",
    "batch_metrics",
    "dynamic_sample",
    "metrics_line",
    "outcome_from_json",
    "outcome_to_json",
    "over_sample",
    "serve_rollouts",
    "service_token",
    "task_queue",
]
