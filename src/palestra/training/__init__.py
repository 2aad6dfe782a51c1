"""Rollouts for a trainer: N requested, N returned, or an error that says why.

No trainer, tensor or cluster library is imported here; adapters to them are in
`palestra.training.adapters`.
"""

from palestra.training.attached import AttachedServers, attached
from palestra.training.client import RolloutClient
from palestra.training.contract import RolloutSource, Submission
from palestra.training.errors import (
    BatchFailed,
    Cause,
    IncompleteRollouts,
    InvalidLogprobs,
    NoTokenIds,
    TokenDiscontinuity,
)
from palestra.training.fleet_pool import FleetPool
from palestra.training.handle import Handle
from palestra.training.health import Health
from palestra.training.outcomes import (
    Chain,
    Completed,
    Evidence,
    Failed,
    FailureClass,
    Flat,
    Group,
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
from palestra.training.servers import OpenServers, Servers
from palestra.training.service import RemoteRolloutClient, serve_rollouts, service_token
from palestra.training.settings import (
    Attempts,
    ClientSettings,
    OnStale,
    OnViolation,
)
from palestra.training.sync import LoopThread, SyncHandle, SyncRolloutClient

__all__ = [
    "AttachedServers",
    "Attempts",
    "BatchFailed",
    "Cause",
    "Chain",
    "ClientSettings",
    "Completed",
    "Evidence",
    "Failed",
    "FailureClass",
    "Flat",
    "FleetPool",
    "Group",
    "Handle",
    "Health",
    "IncompleteRollouts",
    "InvalidLogprobs",
    "Key",
    "LoopThread",
    "NoTokenIds",
    "OnIncomplete",
    "OnStale",
    "OnViolation",
    "OpenServers",
    "Outage",
    "Outcome",
    "Policies",
    "RawRow",
    "RemoteRolloutClient",
    "RolloutClient",
    "RolloutRequest",
    "RolloutSource",
    "Servers",
    "Submission",
    "Summary",
    "SyncHandle",
    "SyncRolloutClient",
    "Timings",
    "TokenDiscontinuity",
    "TokenUsage",
    "Turn",
    "attached",
    "outcome_from_json",
    "outcome_to_json",
    "serve_rollouts",
    "service_token",
]
