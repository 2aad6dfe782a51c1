"""`nemo_gym.rollout_observability`: the records in which an agent reports what happened in a
rollout.
"""

from palestra.observability import (
    AgentEpisode,
    AgentInvocation,
    AgentObservation,
    AgentObservationBundle,
    ContextCompactionObservation,
    ModelCallRef,
    ObservationGap,
    SandboxObservation,
    TokenStats,
    ToolCallObservation,
    TrajectoryModelCall,
    TrajectoryRecord,
    TrajectoryToolCall,
    TrajectoryTurn,
    join_model_call_observations,
)

__all__ = [
    "AgentEpisode",
    "AgentInvocation",
    "AgentObservation",
    "AgentObservationBundle",
    "ContextCompactionObservation",
    "ModelCallRef",
    "ObservationGap",
    "SandboxObservation",
    "TokenStats",
    "ToolCallObservation",
    "TrajectoryModelCall",
    "TrajectoryRecord",
    "TrajectoryToolCall",
    "TrajectoryTurn",
    "join_model_call_observations",
]
