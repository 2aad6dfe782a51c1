import asyncio
from typing import Any

import pytest

from palestra.errors import RowError, VerifierError
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.sandbox import Crashed, Outcome, OutOfMemory, Raised, Returned, TimedOut

WHOLE, ALONE = Call("module:function", ("text",)), Call("module:function", ("",))
KEY_ERROR = Raised("KeyError", "'x'", "")


class Workers:
    """Calls with the model's text end one way after the other, those without it in one way."""

    def __init__(self, *outcomes: Outcome, alone: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.alone = alone

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        assert (function, limit_s) == ("module:function", 1.0)
        return self.outcomes.pop(0) if args == WHOLE.arguments else self.alone

    async def close(self) -> None: ...


def value_after(*outcomes: Outcome, alone: Outcome = Returned(None)) -> Any:  # noqa: B008
    workers = Workers(*outcomes, alone=alone)
    return asyncio.run(value_of(workers, WHOLE, row_call=ALONE, field="pattern", limit_s=1.0))


def test_what_was_returned_is_the_value() -> None:
    assert value_after(Returned([1])) == [1]


@pytest.mark.parametrize(
    "outcomes",
    [
        [TimedOut(1.0)],
        [OutOfMemory(1)],
        [Raised("RecursionError", "", "")],
        [Crashed(11), Crashed(11)],
    ],
)
def test_what_is_stopped_with_the_text_alone_is_the_texts_fault(outcomes: list[Outcome]) -> None:
    with pytest.raises(Stopped, match="it "):
        value_after(*outcomes)


@pytest.mark.parametrize("alone", [TimedOut(1.0), OutOfMemory(1), Raised("RecursionError", "", "")])
def test_what_is_stopped_without_the_text_too_is_the_rows_fault(alone: Outcome) -> None:
    with pytest.raises(RowError, match="pattern: no answer can be verified"):
        value_after(TimedOut(1.0), alone=alone)


def test_a_crash_that_does_not_happen_again_is_nobodys_in_the_row() -> None:
    assert value_after(Crashed(11), Returned(1)) == 1


def test_a_crash_without_the_text_too_is_a_fault_of_ours() -> None:
    with pytest.raises(VerifierError, match="ends by signal SIGSEGV"):
        value_after(Crashed(11), Crashed(11), alone=Crashed(11))


def test_what_the_function_raises_is_no_fault_of_the_data() -> None:
    with pytest.raises(VerifierError, match="module:function raised KeyError: 'x'"):
        value_after(KEY_ERROR)
    with pytest.raises(VerifierError, match="module:function raised KeyError: 'x'"):
        value_after(TimedOut(1.0), alone=KEY_ERROR)
