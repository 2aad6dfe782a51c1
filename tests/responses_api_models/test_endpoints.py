"""Which endpoint a request goes to, decided without any network."""

import logging
from collections import Counter
from dataclasses import dataclass

import pytest

from palestra.errors import ModelError
from palestra.responses_api_models.chat.endpoints import (
    AT_ONCE,
    ERRORS_IN_A_ROW,
    FIRST_PAUSE_S,
    FORGOTTEN_AFTER_S,
    Endpoints,
    ProviderEndpoint,
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def endpoints(*urls: str, clock: Clock | None = None) -> Endpoints:
    return Endpoints(urls or ("a", "b"), server="policy_model", clock=clock or Clock())


def enter(
    known: Endpoints, session: str, tried: tuple[ProviderEndpoint, ...] = ()
) -> ProviderEndpoint:
    found = known.enter(session, tried)
    assert found is not None
    return found


def test_a_session_stays_however_loaded_its_endpoint_is() -> None:
    known = endpoints()
    first = enter(known, "s")
    known.leave("s", first)
    for number in range(10):
        enter(known, f"other {number}")

    assert enter(known, "s") is first


def test_new_sessions_go_where_the_fewest_requests_are_under_way() -> None:
    known = endpoints("a", "b", "c")

    found = [enter(known, f"s{number}").url for number in range(9)]

    assert Counter(found) == {"a": 3, "b": 3, "c": 3}


def test_sessions_that_are_at_their_tools_count_where_load_is_equal() -> None:
    known = endpoints()
    for number in range(10):
        known.leave(f"s{number}", enter(known, f"s{number}"))

    assert [each.sessions for each in known.all] == [5, 5]


def test_a_lost_endpoint_is_left_and_its_sessions_move_for_good() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first = enter(known, "s")
    known.leave("s", first)

    known.lost(first, "connection refused")
    second = enter(known, "s")
    known.answered(second)
    known.leave("s", second)
    clock.now += 3600
    known.answered(first)

    assert second is not first
    assert enter(known, "s") is second


def test_that_an_endpoint_is_left_is_said_once_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = endpoints("http://a/v1", "http://b/v1")
    first = enter(known, "s")

    with caplog.at_level(logging.WARNING):
        known.lost(first, "connection refused")
        known.lost(first, "connection refused")
        known.answered(first)

    assert caplog.messages == [
        (
            "policy_model: endpoint http://a/v1 is not used any more (connection refused); its 1 "
            "sessions move to http://b/v1"
        ),
        "policy_model: http://a/v1 answers again",
    ]


def test_one_request_alone_tries_an_endpoint_that_was_lost() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first, second = known.all
    known.lost(first, "gone")
    second.in_flight = 100
    clock.now += FIRST_PAUSE_S + 0.1

    found = [enter(known, f"s{number}") for number in range(3)]

    assert found == [first, second, second]


def test_all_follow_once_a_lost_endpoint_answered() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first, second = known.all
    known.lost(first, "gone")
    second.in_flight = 100
    clock.now += FIRST_PAUSE_S + 0.1
    known.answered(enter(known, "trial"))

    assert {enter(known, f"s{number}") for number in range(5)} == {first}


def test_the_pause_doubles_up_to_half_a_minute() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first = known.all[0]
    pauses = []
    for _ in range(8):
        known.lost(first, "gone")
        pauses.append(first.left_until - clock.now)
        clock.now = first.left_until

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_many_requests_that_break_together_are_one_loss() -> None:
    known = endpoints()
    first = known.all[0]

    for _ in range(500):
        known.lost(first, "gone")

    assert first.left_until == Clock().now + FIRST_PAUSE_S


def test_a_busy_endpoint_is_left_for_as_long_as_it_asks() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first = enter(known, "s")
    known.busy(first, 7.0)

    assert enter(known, "t") is not first
    clock.now += 7.0
    assert enter(known, "u") is first


def test_when_all_are_left_the_first_to_come_back_is_tried() -> None:
    known = endpoints()
    known.busy(known.all[0], 20.0)
    known.busy(known.all[1], 5.0)

    assert enter(known, "s") is known.all[1]
    assert known.enter("s", (known.all[1],)) is None


def test_a_session_of_a_busy_endpoint_is_a_guest_elsewhere_and_goes_back() -> None:
    clock = Clock()
    known = endpoints("a", "b", "c", clock=clock)
    first = enter(known, "s")
    known.busy(first, 7.0)

    guests = [enter(known, "s"), enter(known, "s")]
    clock.now += 7.0

    assert guests[0] is guests[1] is not first
    assert enter(known, "s") is first
    assert (first.sessions, guests[0].sessions) == (1, 0)


def test_a_guest_goes_on_when_its_host_is_busy_too() -> None:
    known = endpoints("a", "b", "c")
    first = enter(known, "s")
    known.busy(first, 7.0)
    host = enter(known, "s")
    known.busy(host, 7.0)

    assert enter(known, "s") not in {first, host}


def test_one_answer_of_status_500_moves_nobody_and_some_in_a_row_make_guests() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    first = enter(known, "s")

    known.broken(first)
    assert enter(known, "s") is first
    for _ in range(ERRORS_IN_A_ROW):
        known.broken(first)

    assert enter(known, "s") is not first
    clock.now += FIRST_PAUSE_S
    assert enter(known, "s") is first


def test_an_answer_between_them_makes_errors_no_row() -> None:
    known = endpoints()
    first = enter(known, "s")

    for _ in range(ERRORS_IN_A_ROW):
        known.broken(first)
        known.answered(first)

    assert enter(known, "s") is first


def test_an_answer_that_was_under_way_ends_no_pause_that_was_asked_for() -> None:
    known = endpoints()
    first = enter(known, "s")

    known.busy(first, 7.0)
    known.answered(first)

    assert enter(known, "s") is not first


def test_that_sessions_go_elsewhere_for_a_while_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = endpoints("http://a/v1", "http://b/v1")
    first = enter(known, "s")

    with caplog.at_level(logging.WARNING):
        for _ in range(2 * ERRORS_IN_A_ROW):
            known.busy(first, 1.0)
            known.broken(first)

    assert caplog.messages == [
        (
            f"policy_model: endpoint http://a/v1 is not used for a while ({why}); its 1 "
            "sessions go to http://b/v1 meanwhile (logged once)"
        )
        for why in ("it is busy, status 429", "3 answers of status 500 in a row")
    ]


def test_the_shortest_of_all_waits_is_known() -> None:
    known = endpoints("a", "b")
    known.busy(known.all[0], 2.0)
    known.busy(known.all[1], 30.0)

    assert known.soonest_s() == 2.0


def test_a_client_that_uses_one_session_for_everything_is_spread() -> None:
    known = endpoints()

    found = Counter(enter(known, "one cookie").url for _ in range(10 * AT_ONCE))

    assert abs(found["a"] - found["b"]) <= AT_ONCE


def test_sessions_long_unused_are_forgotten() -> None:
    clock = Clock()
    known = endpoints(clock=clock)
    for number in range(100):
        known.leave(f"s{number}", enter(known, f"s{number}"))
    clock.now += FORGOTTEN_AFTER_S

    enter(known, "new")

    assert sum(each.sessions for each in known.all) == 1


def test_a_single_endpoint_remembers_no_sessions() -> None:
    known = endpoints("a")

    enter(known, "s")

    assert known.all[0].sessions == 0
    assert known.enter("s", known.all) is None


def test_without_an_endpoint_there_is_no_home() -> None:
    with pytest.raises(ModelError, match="no endpoint yet"):
        Endpoints((), server="policy_model").home("s")
