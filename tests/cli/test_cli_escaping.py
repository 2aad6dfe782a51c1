"""Texts of others on a terminal."""

import pytest

from palestra.cli.escaping import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 漢字", "plain text, 漢字"),
        ("clear \x1b[2J and title \x1b]0;x\x07", r"clear \x1b[2J and title \x1b]0;x\x07"),
        ("\x1b[1;32mgreen\x1b[0m", "green"),
        ("over\rwritten\b", r"over\x0dwritten\x08"),
        ("eight-bit \x9b2J", r"eight-bit \u009b2J"),
        ("turned \u202eround", r"turned \u202eround"),
        ("half \ud83d", r"half \ud83d"),
        ("two\n\tlines", "two\n\tlines"),
    ],
)
def test_no_text_can_steer_the_terminal(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_text_for_one_line_stays_in_it() -> None:
    assert one_line("two\n\tlines") == r"two\n\tlines"
