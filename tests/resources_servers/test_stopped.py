import asyncio
from typing import Any

import pytest

from palestra.errors import VerifierError
from palestra.resources_servers.stopped import Stopped, value_of
from palestra.sandbox import Crashed, Outcome, OutOfMemory, Raised, Returned, TimedOut


class Workers:
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        assert (function, args, limit_s) == ("module:function", ("text",), 1.0)
        return self.outcome

    async def close(self) -> None: ...


def value_after(outcome: Outcome) -> Any:
    return asyncio.run(value_of(Workers(outcome), "module:function", "text", limit_s=1.0))


def test_what_was_returned_is_the_value() -> None:
    assert value_after(Returned([1])) == [1]


@pytest.mark.parametrize(
    "outcome", [TimedOut(1.0), OutOfMemory(1), Crashed(11), Raised("RecursionError", "", "")]
)
def test_a_call_that_does_not_end_well_was_stopped(outcome: Outcome) -> None:
    with pytest.raises(Stopped):
        value_after(outcome)


def test_what_the_function_raises_is_no_fault_of_the_data() -> None:
    with pytest.raises(VerifierError, match="module:function raised KeyError: 'x'"):
        value_after(Raised("KeyError", "'x'", ""))
