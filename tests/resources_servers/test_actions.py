"""The action in a model's turn."""

import time

import pytest

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
def test_a_megabyte_of_tags_takes_no_time(tag: str) -> None:
    began = time.perf_counter()

    last_action(tag * (1_000_000 // len(tag)))

    assert time.perf_counter() - began < 1.0
