"""How often a command says that it waits for a model's endpoint."""

from palestra.api.fleet_connection import ASK_AGAIN_S, ReminderPace


def test_waiting_is_told_at_growing_intervals_and_then_once_a_minute() -> None:
    pace = ReminderPace()
    asked = [number * ASK_AGAIN_S for number in range(130)]

    told = [elapsed_s for elapsed_s in asked if pace.is_due(elapsed_s)]

    assert told == [0, 2, 4, 8, 16, 32, 64, 124, 184, 244]


def test_a_slow_answer_does_not_bring_lines_one_after_the_other() -> None:
    pace = ReminderPace()

    assert [pace.is_due(elapsed_s) for elapsed_s in (0.0, 31.0, 33.0, 61.0, 62.0)] == [
        *(True, True, False, False, True)
    ]
