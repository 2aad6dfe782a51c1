"""Recorded rollouts get the reward they had, by the command that verifies stored responses.

For every environment that Palestra is to ship, so that a missing one is a failure; with nothing but
its name, as a user would: what rollouts lack of their tasks, and what judges answered, the command
finds.
"""

import importlib.util
from pathlib import Path

import pytest
from verifying import ENVIRONMENTS, RECORDED

from palestra.cli.reverifying import reverify
from palestra.schema import read_jsonl
from palestra.settings import ReverifyArgs

PROMISED = (
    "arc_agi",
    "blackjack",
    "calendar",
    "code_gen",
    "equivalence_llm_judge",
    "equivalence_rule",
    "example_mcp_weather",
    "example_multi_step",
    "example_multi_turn_gymnasium",
    "example_session_state_mgmt",
    "example_single_tool_call",
    "example_tool_call_multireward",
    "google_search",
    "gymnasium",
    "instruction_following",
    "math_with_code",
    "math_with_judge",
    "mcqa",
    "reasoning_gym",
    "single_step_tool_use_with_argument_comparison",
    "string_match",
    "structured_outputs",
    "text_to_sql",
    "workplace_assistant",
    "xlam_fc",
)
"""The environments that users are promised, by their folders."""
NEEDS = {"reasoning_gym": "reasoning_gym"}
"""Libraries that are extras: module by environment."""
NOWHERE_SAID = {
    "workplace_assistant": "the recorded rows are of tasks whose gold actions are not recorded",
}
"""Environments whose recorded rollouts do not say what would have been right."""


@pytest.mark.parametrize("name", PROMISED)
def test_a_promised_environment_is_shipped(name: str) -> None:
    assert (ENVIRONMENTS / name / "configs" / f"{name}.yaml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_recorded_rollouts_get_their_recorded_reward(name: str, tmp_path: Path) -> None:
    rollouts = RECORDED / name / "rollouts.jsonl"
    if not rollouts.exists():
        pytest.skip(f"no recorded rollouts of {name}")
    if name in NOWHERE_SAID:
        pytest.skip(NOWHERE_SAID[name])
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    output = tmp_path / "again.jsonl"

    code = reverify(ReverifyArgs(rollouts=rollouts, output=output, environment=name), [])

    failures = output.with_name("again_failures.jsonl")
    assert code == 0, failures.read_text() if failures.exists() else ""
    before = [line.row["reward"] for line in read_jsonl(rollouts)]
    assert [line.row["reward"] for line in read_jsonl(output)] == before
