"""Metrics of repeated attempts, and the key metrics among them."""

from typing import ClassVar

from palestra.metrics import compute_pass_majority_metrics, highest_k_metrics
from palestra.schema import JsonDict, JsonObject
from palestra.server import ResourcesServer


class AttemptsServer(ResourcesServer):
    """A resources server that reports pass@k over repeated attempts."""

    has_majority: ClassVar[bool] = False
    """Whether results have an `extracted_answer`, which the majority vote needs."""

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Compute pass@k, its averages, and majority@k over extracted answers, in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Return the average and best over all attempts, and the majority vote if `has_majority`."""
        return key_metrics(agent_metrics, majority=self.has_majority)


def key_metrics(agent_metrics: JsonObject, *, majority: bool = False) -> JsonDict:
    """Return the average and best for the highest k; with `majority` also the majority vote."""
    patterns = ("pass@1[avg-of-{k}]", "pass@{k}") + (("majority@{k}",) if majority else ())
    return {
        name: value
        for pattern in patterns
        for name, value in highest_k_metrics(agent_metrics, pattern).items()
    }
