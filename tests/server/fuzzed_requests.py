"""Requests that schemathesis makes from a server's OpenAPI document, and what it finds wrong.

It runs in a process of its own, which imports nothing of Palestra: Hypothesis takes values from the
imported modules of the project, and then the requests would depend on what else was tested before.
One process serves all the servers of a test file: schemathesis takes 4 s to start.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
PHASES = ("examples", "coverage", "fuzzing", "stateful")
EXAMPLES = 12
"""Requests of each operation."""
REQUEST_TIMEOUT_S = 60


@contextmanager
def fuzzer(folder: Path) -> Iterator[ProcessPoolExecutor]:
    """The process that makes the requests, with `folder` as its working directory."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=os.chdir, initargs=(folder,)) as pool:
        yield pool


def findings_at(url: str) -> list[str]:
    """What is wrong with the answers to the requests; empty when nothing is."""
    config = SchemathesisConfig.from_dict(
        {
            "request-timeout": REQUEST_TIMEOUT_S,
            "suppress-health-check": ["all"],
            "warnings": False,
            "cache": {"enabled": False},
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "no-shrink": True},
            "phases": {name: {"enabled": name == "fuzzing"} for name in PHASES},
            "checks": {"enabled": False} | {name: {"enabled": True} for name in CHECKS},
        }
    )
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=config)
    return [line for event in from_schema(schema).execute() for line in _findings(event)]


def _findings(event: events.EngineEvent) -> Iterator[str]:
    if isinstance(event, events.FatalError):
        raise event.exception
    if isinstance(event, events.NonFatalError):
        yield f"{event.label}: {event.info}"
    if isinstance(event, events.ScenarioFinished):
        if event.status is Status.SKIP:
            yield f"{event.label}: not tried: {event.skip_reason}"
        for checks in event.recorder.checks.values():
            for check in checks:
                if check.failure_info is not None:
                    failure = check.failure_info
                    yield f"{event.label}: {check.name}: {failure.failure}\n{failure.code_sample}"
