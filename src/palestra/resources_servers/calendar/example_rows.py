"""The rows of `data/example.jsonl`, written by running this module: from two events to five, with every kind of constraint."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

RULES = """You keep the user's calendar for one day, which is empty at first.
- End every answer with the whole calendar as a JSON list: [{"event_id": 0, "event_name": "name", "start_time": "10:00", "duration": 60}]
- Times are in 24 hours, durations in minutes. All events lie between 10:00 and 16:00 and never overlap.
- "before 11am" means that the event ends by 11:00, "after 2pm" that it starts at 14:00 or later. What the user has once said about an event stays true when it moves.
- Move events when you must, without asking."""

DAYS: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (("Tune the harpsichord", 60, "before 12pm"), ("Choir practice", 90, "after 1pm")),
    (("Order strings", 30, None), ("Lunch with Ines", 60, "at 12:30pm"), ("Nap", 30, "after 2pm")),
    (
        ("Rehearsal", 120, "between 10am and 1pm"),
        ("Phone call", 15, "before 11am"),
        ("Interview", 45, "at 2:15pm"),
    ),
    (
        ("Copy parts", 60, "after 10am"),
        ("Concert plan", 30, "between 11am and 12pm"),
        ("Bakery", 30, "before 3:30pm"),
        ("Bus", 45, "at 3:15pm"),
    ),
    (
        ("Lesson one", 60, "at 10am"),
        ("Lesson two", 60, "after 10:30am"),
        ("Letters", 30, "before 1pm"),
        ("Repair", 75, "between 12pm and 4pm"),
        ("Tea", 30, "after 3pm"),
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(day) for day in DAYS]


def _row(day: tuple[tuple[str, int, str | None], ...]) -> dict[str, Any]:
    asked = [
        f"{name} (event id: {number}), {minutes} minutes{f', {when}' if when else ''}."
        for number, (name, minutes, when) in enumerate(day)
    ]
    content = "Please put these on my calendar:\n" + "\n".join(asked)
    return {
        "responses_create_params": {
            "input": [{"role": "system", "content": RULES}, {"role": "user", "content": content}]
        },
        "exp_cal_state": {
            str(number): {
                "event_id": number,
                "duration": minutes,
                "constraint": when,
                "min_time": "10:00",
                "max_time": "16:00",
            }
            for number, (_, minutes, when) in enumerate(day)
        },
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
