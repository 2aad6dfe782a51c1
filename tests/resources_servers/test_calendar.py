import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import agrees, post_verify, recorded, said, server_of, verify

from palestra.resources_servers.calendar.app import (
    CalendarServer,
    WrittenEvent,
    clock,
    events_of,
    spoken,
    window_of,
)


def wanted(*constraints: str | None) -> dict[str, Any]:
    day = {"duration": 60, "min_time": "10:00", "max_time": "16:00"}
    return {
        "exp_cal_state": {
            str(n): {"event_id": n, "constraint": text, **day} for n, text in enumerate(constraints)
        }
    }


def calendar(*starts: str, duration: int = 60) -> str:
    return json.dumps(
        [
            {"event_id": n, "event_name": "x", "start_time": start, "duration": duration}
            for n, start in enumerate(starts)
        ]
    )


@pytest.mark.parametrize(
    ("constraints", "text", "violation"),
    [
        ([None], calendar("10:00"), None),
        (["before 11am"], f"Done!\n```json\n{calendar('10:00')}\n```", None),
        (["before 11am"], calendar("10:01"), "event 0 is not when"),
        (["at noon"], calendar("12:00"), None),
        ([None], calendar("10:00:00"), None),
        ([None], calendar("10:00 AM"), None),
        (["after 1pm"], calendar("01:30:00 pm"), "no calendar"),
        (["after 1pm"], calendar("1:30:00 pm"), None),
        ([None], calendar("10:00:30"), "no calendar"),
        (["between 10am and Noon"], calendar("11:01"), "event 0 is not when"),
        ([None], calendar("10:00") + "\nConflicts: []", None),
        ([None], calendar("10:00").replace("60", "60.0"), None),
        ([None], calendar("10:00").replace("60", "60.5"), "no calendar"),
        ([None], calendar("10:00").replace("60", "NaN"), "no calendar"),
        (["after 2pm"], calendar("14:00"), None),
        (["after 2pm"], calendar("13:59"), "event 0 is not when"),
        (["at 12:15pm"], calendar("12:15"), None),
        (["at 12:15pm"], calendar("12:16"), "event 0 is not when"),
        (["between 10am and 11:45am"], calendar("10:45"), None),
        (["between 10am and 11:45am"], calendar("10:46"), "event 0 is not when"),
        ([None], calendar("15:01"), "event 0 is not when"),
        ([None], calendar("09:59"), "event 0 is not when"),
        ([None], calendar("10:00", duration=30), "event 0 does not take 60"),
        ([None, None], calendar("10:00", "11:00"), None),
        ([None, None], calendar("11:00", "10:00"), None),
        ([None, None], calendar("10:00", "10:59"), "events 0 and 1 overlap"),
        ([None, None], calendar("10:00"), "event 1 is missing"),
        ([None], calendar("10:00", "12:00"), "event 1 was not asked for"),
        ([None], calendar("10:00")[:-1] + "," + calendar("12:00")[1:], "an event is there twice"),
        ([None], calendar("10h"), "no calendar"),
        ([None], "[]", "event 0 is missing"),
        ([None], "It is at 10:00.", "no calendar"),
        ([None], "", "no calendar"),
    ],
)
def test_the_calendar_keeps_what_was_asked(
    constraints: list[str | None], text: str, violation: str | None
) -> None:
    found = verify(server_of(CalendarServer), wanted(*constraints), said(text))

    assert found["reward"] == float(violation is None)
    assert (found["violation"] or "").startswith(violation or "")


def test_the_last_calendar_counts() -> None:
    text = f"It was {calendar('10:00')} and is now {calendar('12:00')} [see above]."

    assert events_of(text) == [WrittenEvent(0, 720, 60)]


@pytest.mark.parametrize("text", ["[{" * 100_000, "[" * 100_000 + "{", '[{"a":' * 50_000])
@pytest.mark.timeout(20)
def test_brackets_without_end_are_no_calendar(text: str) -> None:
    assert events_of(text) is None


@given(st.text(st.sampled_from('[]{}":,0123event_id'), max_size=100))
def test_any_text_is_a_calendar_or_none(text: str) -> None:
    found = events_of(text)

    assert found is None or all(isinstance(event, WrittenEvent) for event in found)


def test_times_are_read_as_they_are_said() -> None:
    said_so = ["12am", "12pm", "1pm", "11:45am", "4 PM", "10 a.m.", " Noon"]

    assert [spoken(text) for text in said_so] == [0, 720, 780, 705, 960, 600, 720]
    assert [spoken(text) for text in ("13pm", "0am", "noonish", "1:60pm", "")] == [None] * 5
    assert [clock(text) for text in ("09:05", "9:05", "24:00", "10")] == [545, 545, None, None]


def test_a_constraint_that_cannot_be_read_is_the_rows_fault() -> None:
    status, body = post_verify(server_of(CalendarServer), wanted("around 2pm"), said("[]"))

    assert status == 422
    assert "before TIME" in json.dumps(body)
    assert window_of("at twelve") is None


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    assert all(agrees(server_of(CalendarServer), row, at) for row, at in recorded("calendar"))
