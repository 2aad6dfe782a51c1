"""The metrics of an environment that a reader looks at first: `get_key_metrics` of most of them."""

from collections.abc import Mapping
from typing import Any

from palestra.metrics import highest_k_metrics


def key_metrics(agent_metrics: Mapping[str, Any], *, majority: bool = False) -> dict[str, Any]:
    """Average and best of as many attempts as there are; with `majority` what they vote for too."""
    patterns = ("pass@1[avg-of-{k}]", "pass@{k}") + (("majority@{k}",) if majority else ())
    return {
        name: value
        for pattern in patterns
        for name, value in highest_k_metrics(agent_metrics, pattern).items()
    }
