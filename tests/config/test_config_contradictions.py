"""An override that gives a setting of a flag another value."""

import pytest

from palestra.config import MASK, contradicting_override


@pytest.mark.parametrize(
    ("setting", "value", "override", "contradicts"),
    [
        ("limit", 3, "++limit=4", True),
        ("limit", 3, "++limit=3", False),
        ("num_repeats", "3", "num_repeats=3", False),
        ("limit", 3, "~limit", True),
        ("limit", 3, "++limits=4", False),
        ("params.top_p", 0.5, "++params={top_p: 0.7}", True),
        ("params.top_p", 0.5, "++params={temperature: 0.7}", False),
        ("params", {}, "++params.top_p=0.7", False),
        ("limit", 3, "++limit=[", False),
        ("limit", 3, "file.yaml", False),
    ],
)
def test_an_override_contradicts_a_flag_when_it_gives_another_value(
    setting: str, value: object, override: str, contradicts: bool
) -> None:
    found = contradicting_override(setting, value, ["+other=1", override])

    assert found == (override if contradicts else "")


def test_the_value_of_a_contradicting_override_is_masked_when_it_is_a_secret() -> None:
    assert contradicting_override("api_key", "sk-1", ["++api_key=sk-2"]) == f"++api_key={MASK}"
