"""Metrics of repeated attempts, and those of them that a reader looks at first."""

from typing import ClassVar

from palestra.metrics import compute_pass_majority_metrics, highest_k_metrics
from palestra.schema import JsonDict, JsonObject
from palestra.server import ResourcesServer


class AttemptsServer(ResourcesServer):
    """An environment that reports pass@k of repeated attempts."""

    has_majority: ClassVar[bool] = False
    """Whether its results have an `extracted_answer`, so that attempts can vote."""

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """pass@k, its averages, and majority@k over extracted answers; in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Average and best of as many attempts as there are, and their majority if they vote."""
        return key_metrics(agent_metrics, majority=self.has_majority)


def key_metrics(agent_metrics: JsonObject, *, majority: bool = False) -> JsonDict:
    """Average and best of as many attempts as there are; with `majority` what they vote for too."""
    patterns = ("pass@1[avg-of-{k}]", "pass@{k}") + (("majority@{k}",) if majority else ())
    return {
        name: value
        for pattern in patterns
        for name, value in highest_k_metrics(agent_metrics, pattern).items()
    }
