"""Rollouts in flight against the limit on open files."""

from pathlib import Path
from typing import Any

import pytest

from palestra.api import check_descriptors, files_per_rollout, most_in_flight
from palestra.errors import ConfigError
from palestra.settings import CollectSettings
from palestra.transport import ASGIApp, LocalEndpoint, Target


class Here:
    """A server in this process."""

    def typed_endpoint(self, path: str, /) -> LocalEndpoint | None:
        return None

    def asgi_app(self) -> ASGIApp:
        raise NotImplementedError


EMBEDDED = [Target("agent", "a", local=Here()), Target("model", "m", local=Here())]
PROCESSES = [Target("agent", "a", ("http://127.0.0.1:1",)), Target("m", "m", ("http://[::1]:2",))]
WORKERS = [Target("agent", "a", tuple(f"http://127.0.0.1:{n}" for n in range(4)))]
ELSEWHERE = [Target("agent", "a", ("http://node7:1",))]


def asking(parallel: Any) -> CollectSettings:
    return CollectSettings((), Path("o"), num_samples_in_parallel=parallel)


@pytest.mark.parametrize(
    ("targets", "files"), [(EMBEDDED, 1.0), (PROCESSES, 2.0), (WORKERS, 1.0), (ELSEWHERE, 1.0)]
)
def test_sockets_of_a_rollout_depend_on_where_the_servers_are(
    targets: list[Target], files: float
) -> None:
    assert files_per_rollout(targets) == files


def test_a_number_that_fits_is_fine() -> None:
    assert check_descriptors(asking(3_840), 100_000, EMBEDDED, 4_096) == ""
    assert check_descriptors(asking(100_000), 3_000, EMBEDDED, 4_096) == ""


def test_a_number_that_does_not_fit_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError) as refused:
        check_descriptors(asking(16_000), 100_000, EMBEDDED, 4_096)

    assert refused.value.message == (
        "16000 rollouts in flight need about 16256 open files in one process, and the limit is 4096"
    )
    assert "--concurrency 3840" in refused.value.hint
    assert "16256" in refused.value.hint


def test_without_a_number_it_is_a_warning() -> None:
    warning = check_descriptors(asking(None), 8_000, PROCESSES, 4_096)

    assert "8000 rollouts in flight need about 16256 open files" in warning
    assert "--concurrency 1920" in warning


def test_a_number_that_is_decided_on_the_way_is_kept_within_what_fits() -> None:
    assert check_descriptors(asking("auto"), 100_000, EMBEDDED, 4_096) == ""
    assert most_in_flight(EMBEDDED, 4_096) == 3_840
    assert most_in_flight(PROCESSES, 100) == 1
