"""The action in a model's turn."""

import pytest

from growth import growth
from palestra.resources_servers.actions import last_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("", None),
        ("left", None),
        ("<action>left", None),
        ("left</action>", None),
        ("<action>left</action>", "left"),
        ("no <Action> a </action> but <ACTION>\nb\n</ACTION>.", "b"),
        ("<action>a</action> or <action>b", "a"),
        ("<action>a</action></action>", "a"),
        ("<action><action>a</action>", "a"),
        ("<action></action>", ""),
    ],
)
def test_the_last_whole_action_counts(text: str, action: str | None) -> None:
    assert last_action(text) == action


@pytest.mark.parametrize("tag", ["<action>", "</action>", "<action", "<action></"])
def test_a_megabyte_of_tags_is_read_in_a_time_that_suits_its_length(tag: str) -> None:
    assert growth(lambda length: last_action(tag * (length // len(tag))), 10_000, 1_000_000) < 1_000
