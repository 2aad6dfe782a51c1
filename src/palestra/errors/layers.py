"""The words in which every failure is reported: its layer and its kind."""

from enum import StrEnum


class Layer(StrEnum):
    """Where a failure belongs; the doctor reports in these same words."""

    INFRA = "infra"
    MODEL = "model serving"
    CONFIG = "config"
    DATA = "data/schema"
    VERIFIER = "verifier/runtime"
    CACHE = "cache/resume"
    THROUGHPUT = "throughput/resources"


class FailureKind(StrEnum):
    """How one requested rollout can fail; the names a failures file uses. Whose code raised decides.

    The same words travel as `error.type` in the body of every failed response, so a
    failure keeps its class through any number of servers.
    """

    POLICY = "policy_error"
    """The model endpoint answered, and the answer is an error or not an answer."""
    INFRA = "infra_error"
    """A process, connection or disk failed; the task was never really tried."""
    DATA = "data_error"
    """The row does not fit what a server, a tool schema or the endpoint accepts."""
    AGENT = "agent_error"
    """The agent's own code raised, or answered something that is no result."""
    ENVIRONMENT = "environment_error"
    """The environment's own code raised while it was seeded or used: a tool, a turn."""
    VERIFIER = "verifier_error"
    """The environment's `verify` raised, or returned something that is not a reward."""
    JUDGE = "judge_error"
    """The judge model failed or gave no verdict that can be read."""
    TIMEOUT = "timeout"
    """A deadline passed; the message says what was being awaited."""
    CANCELLED = "cancelled"
    """The run was stopped before this rollout ended."""
    CONFIG = "config_error"
    """The run cannot go on as configured (for example a rejected API key)."""
