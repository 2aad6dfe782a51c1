"""Identifiers are not at the mercy of whoever seeds the global generator."""

import random

from palestra.transport import new_id


def test_seeding_the_global_generator_twice_gives_two_ids() -> None:
    random.seed(42)
    first = new_id("s_")
    random.seed(42)

    assert new_id("s_") != first
    assert first.startswith("s_")
    assert len(first) == 34
