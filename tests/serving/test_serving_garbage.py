"""A process that runs a fleet collects garbage rarely, and as before when it is done."""

import gc

from palestra.serving import rare_collections


def test_collections_are_rare_while_the_body_runs_and_as_before_after_it() -> None:
    before = gc.get_threshold()

    try:
        with rare_collections():
            during = gc.get_threshold()
            raise InterruptedError
    except InterruptedError:
        after = gc.get_threshold()

    assert all(rare > often for rare, often in zip(during, before, strict=True))
    assert after == before
