"""What another process reads in a pulse."""

from collections.abc import Iterator

import pytest

from palestra.system import Pulse


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    made = Pulse.create()
    yield made
    made.close()


def test_a_call_that_has_ended_is_not_read(pulse: Pulse) -> None:
    pulse.enter(b"first", 1.0)
    pulse.leave()
    ended = pulse.executing()
    pulse.enter(b"second", None)

    assert ended == []
    assert [(call.text, call.deadline) for call in pulse.executing()] == [(b"second", None)]


def test_a_call_inside_another_gives_way_to_it_again(pulse: Pulse) -> None:
    pulse.enter(b"outer", 1.0)
    pulse.enter(b"inner", 2.0)
    pulse.leave()

    assert [(call.text, call.deadline) for call in pulse.executing()] == [(b"outer", 1.0)]


def test_a_shorter_note_replaces_a_longer_one(pulse: Pulse) -> None:
    pulse.note(b"longer")
    pulse.note(b"short")

    assert pulse.noted() == b"short"
