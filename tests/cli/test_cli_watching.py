"""What a collection leaves with its guard about its events."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from palestra.cli.guard import tell_guard
from palestra.cli.watching import watching
from palestra.rollouts import events
from palestra.system import Pulse, watched_by


def test_a_guard_knows_that_the_end_of_a_run_is_told_already(tmp_path: Path) -> None:
    target = str(tmp_path / "events.jsonl")
    pulse = Pulse.create()
    with watched_by(pulse):
        with watching("none", target) as watch:
            tell_guard(events=watch.events_target, again="--resume")
            before = json.loads(pulse.noted())
            watch.ended(0)
        after = json.loads(pulse.noted())
    pulse.close()

    assert before == {"events": target, "again": "--resume"}
    assert after == {"events": "", "again": "--resume"}


def test_a_guard_ends_the_events_of_a_run_that_did_not_tell_its_end(tmp_path: Path) -> None:
    target = str(tmp_path / "events.jsonl")
    pulse = Pulse.create()
    with watched_by(pulse):
        with contextlib.suppress(ZeroDivisionError), watching("none", target) as watch:
            tell_guard(events=watch.events_target)
            raise ZeroDivisionError
        noted = json.loads(pulse.noted())
    pulse.close()

    assert noted == {"events": target}


def test_a_guard_ends_the_events_that_nobody_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LAST_FLUSH_S", 0.1)
    reading, writing = os.pipe()
    target = f"/dev/fd/{writing}"
    pulse = Pulse.create()
    with watched_by(pulse):
        with watching("none", target) as watch:
            tell_guard(events=watch.events_target)
            watch.ended(0, "long" * 2**18)
        noted = json.loads(pulse.noted())
    pulse.close()
    for descriptor in (reading, writing):
        os.close(descriptor)

    assert noted == {"events": target}
