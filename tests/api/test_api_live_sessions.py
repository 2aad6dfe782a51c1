"""Advice about rollouts whose verification failed and needs its live session."""

from pathlib import Path

import pytest

import palestra
from palestra import Run
from palestra.testing import scripted_endpoint

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
