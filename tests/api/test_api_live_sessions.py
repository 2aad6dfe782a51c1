"""Advice about rollouts whose verification failed and needs its live session."""

import json
from pathlib import Path

import pytest

import palestra
from palestra import Run
from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow

BOUND = """
from palestra import ResourcesServer, Session
from palestra.schema import VerifyRequest, VerifyResponse

class Bound(ResourcesServer):
    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        raise ValueError("not yet")
"""
STATELESS = BOUND.replace(
    "(ResourcesServer):", '(ResourcesServer):\n    reverify_mode = "stateless"\n'
)
CONFIG = """
bound:
  resources_servers:
    bound: {}
bound_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: bound}
      model_server: {type: responses_api_models, name: policy_model}
"""


FIELD_BOUND = """
from fastapi import Request
from nemo_gym.base_resources_server import *

class Bound(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise ValueError("not yet")
"""
"""A server of the field with a session, which does not say whether it can verify without it."""


def failed_run(folder: Path, app: str) -> Run:
    """A run of one rollout whose verification raised."""
    server = folder / "resources_servers" / "bound"
    server.mkdir(parents=True)
    (server / "app.py").write_text(app)
    Path("bound.yaml").write_text(CONFIG)
    with scripted_endpoint("4") as model:
        return palestra.evaluate(
            "bound.yaml",
            model=f"vllm:{model.url}",
            data=[{"responses_create_params": {"input": "2+2?"}}],
            output="out/run.jsonl",
            progress=False,
        )


def test_new_rollouts_are_advised_where_the_session_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    run = failed_run(tmp_path, BOUND)

    [failure] = run.failures()
    [finding] = run.diagnose().findings
    select = "`palestra select out/run.jsonl --failed --out out/run_again.jsonl`"
    assert select in failure.remedy
    assert "needs the live session" in failure.remedy
    assert select in finding.next_action


def test_kept_answers_are_advised_where_verify_needs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    run = failed_run(tmp_path, STATELESS)

    [failure] = run.failures()
    assert "palestra reverify" in failure.remedy
    assert "--force" not in failure.remedy


def mixed_run(folder: Path, *agents: str) -> Run:
    """A run with one row of each of `agents`, where the config has the agent of a server that needs
    its session and one of a server that needs none.
    """
    free = folder / "resources_servers" / "free"
    free.mkdir(parents=True)
    (free / "app.py").write_text(STATELESS.replace("Bound", "Free"))
    bound = folder / "resources_servers" / "bound"
    bound.mkdir(parents=True)
    (bound / "app.py").write_text(FIELD_BOUND)
    Path("both.yaml").write_text(CONFIG + CONFIG.replace("bound", "free"))
    with scripted_endpoint(*["4"] * len(agents)) as model:
        return collected(model.url, *agents)


def collected(model_url: str, *agents: str, resume: bool = False) -> Run:
    """The run of `mixed_run`."""
    rows = [
        {
            "responses_create_params": {"input": "2+2?"},
            "agent_ref": {"type": "responses_api_agents", "name": agent},
        }
        for agent in agents
    ]
    return palestra.evaluate(
        "both.yaml",
        model=f"vllm:{model_url}",
        data=rows,
        output="out/run.jsonl",
        progress=False,
        resume=resume,
    )


@pytest.mark.parametrize("agents", [("bound_agent",), ("bound_agent", "free_agent")])
def test_new_rollouts_are_advised_where_one_environment_of_the_rows_needs_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agents: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    run = mixed_run(tmp_path, *agents)

    assert all("--failed --out" in failure.remedy for failure in run.failures())
    assert all("REVERIFY_MODE" in failure.remedy for failure in run.failures())
    assert not any("--force" in failure.remedy for failure in run.failures())


def test_a_resumed_run_knows_the_environments_of_the_rows_that_ended_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agents = ("bound_agent", "free_agent")
    mixed_run(tmp_path, *agents)

    with scripted_endpoint() as model:
        collected(model.url, *agents, resume=True)

    manifest = json.loads(Path("out/run_manifest.json").read_text())
    assert manifest["reverify"]["needs_session"] is True


def test_an_environment_without_rows_does_not_change_the_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    [failure] = mixed_run(tmp_path, "free_agent").failures()

    assert "scores 1 by the kept answers" in failure.remedy
    assert "--force" not in failure.remedy
