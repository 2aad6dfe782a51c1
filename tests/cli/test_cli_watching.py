"""What a collection leaves with its guard about its events."""

import json
from pathlib import Path

from palestra.cli.guard import tell_guard
from palestra.cli.watching import watching
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
