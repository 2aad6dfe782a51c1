"""gymnasium: its recorded examples, played again."""

import json
from pathlib import Path

import pytest

from palestra.testing import assert_verifies, response_of

pytest.importorskip("gymnasium")

DATA = Path(__file__).parents[1] / "data"
ROWS = [json.loads(line) for line in (DATA / "example.jsonl").read_text().splitlines()]
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[f"{c['row']} {c['note']}" for c in CASES])
def test_each_walk_gets_its_reward(case: dict) -> None:  # type: ignore[type-arg]
    assert_verifies(DATA.parent, ROWS[case["row"]], response_of(*case["answer"]), case["reward"])
