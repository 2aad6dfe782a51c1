"""The office: its tools, and judging what a rollout changed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verifying import answered, called, example_rows, post_verify, response, said, verify

from palestra.errors import ConfigError
from palestra.resources_servers.workplace_assistant.app import (
    RECORDS,
    WorkplaceServer,
    WorkplaceServerConfig,
    read_output,
)
from palestra.resources_servers.workplace_assistant.make_office import office
from palestra.resources_servers.workplace_assistant.records import Office, Workplace
from palestra.schema import Response
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient

DONE = '{"output":"done"}'
CRM = "customer_relationship_manager"


def server(**settings: Any) -> WorkplaceServer:
    return WorkplaceServer(
        config=WorkplaceServerConfig(name="under_test", **settings),
        server_client=ServerClient({}, HttpClient()),
    )


def use(session: Session, tool: str, **arguments: Any) -> Any:
    """Call a tool as an agent does: through its method, in a session."""
    method = getattr(OFFICE, tool)
    takes_session = tool != "company_directory_find_email_address"
    given = {"session": session, **arguments} if takes_session else arguments
    return asyncio.run(method(**given))["output"]


OFFICE = server()


def test_people_are_found_by_part_of_their_name() -> None:
    assert use(Session("a"), "company_directory_find_email_address", name="HANA") == [
        "hana.sato@example.com"
    ]


def test_mail_is_found_by_all_words_newest_first_and_in_pages() -> None:
    first = use(Session("a"), "email_search_emails", query="the review", page_size=2)
    dates = [mail["sent_datetime"] for mail in first["emails"]]

    assert dates == sorted(dates, reverse=True)
    assert len(dates) == 2
    assert first["pages"] == -(-first["total"] // 2)
    assert "There is no page 99" in use(Session("a"), "email_search_emails", page=99)


def test_dates_bound_a_search_with_both_days() -> None:
    found = use(
        Session("a"),
        "email_search_emails",
        date_min="2023-11-20",
        date_max="2023-11-21",
        page_size=50,
    )
    days = {mail["sent_datetime"][:10] for mail in found["emails"]}

    assert days <= {"2023-11-20", "2023-11-21"}


def test_what_a_session_changes_it_sees_and_no_other_does() -> None:
    mine, other = Session("mine"), Session("other")
    use(mine, f"{CRM}_update_customer", customer_id="00000001", field="status", new_value="Won")
    use(mine, "email_delete_email", email_id="00000001")

    assert OFFICE.at(mine).find("customers", "00000001")["status"] == "Won"
    assert "No email" in use(
        mine, "email_get_email_information_by_id", email_id="00000001", field="body"
    )
    assert OFFICE.at(other).find("emails", "00000001") is not None


def test_a_new_record_can_be_changed_and_found() -> None:
    session = Session("a")
    event = {"participant_email": "ivo.petrov@example.com", "event_start": "2023-12-01 09:00:00"}
    number = use(session, "calendar_create_event", event_name="Tea", duration="30", **event)
    use(session, "calendar_update_event", event_id=number, field="duration", new_value="45")
    found = use(session, "calendar_search_events", query="tea ivo")

    assert number == "00000101"
    assert [event["duration"] for event in found["events"]] == ["45"]


@pytest.mark.parametrize(
    ("tool", "arguments", "refusal"),
    [
        ("email_delete_email", {"email_id": "9"}, "No email with the ID 9"),
        ("email_send_email", {"recipient": "ivo", "subject": "", "body": ""}, "not an email"),
        (
            "project_management_update_task",
            {"task_id": "00000001", "field": "board", "new_value": "Back End"},
            "board must be one of",
        ),
        (
            f"{CRM}_update_customer",
            {"customer_id": "00000001", "field": "salary", "new_value": "1"},
            "no field 'salary'",
        ),
        (
            "analytics_create_plot",
            {"time_min": "", "time_max": "", "value_to_plot": "x", "plot_type": "bar"},
            "value_to_plot must be one of",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    tool: str, arguments: dict[str, str], refusal: str
) -> None:
    session = Session("a")

    assert refusal in use(session, tool, **arguments)
    assert OFFICE.at(session).effects() == Workplace(OFFICE.office()).effects()


def gold(*calls: tuple[str, dict[str, str]]) -> dict[str, Any]:
    return {
        "ground_truth": [
            {"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls
        ]
    }


def made(*calls: tuple[str, dict[str, str]], output: str = DONE) -> list[dict[str, Any]]:
    items = []
    for number, (name, arguments) in enumerate(calls):
        items.append(called(name, json.dumps(arguments), f"c{number}"))
        items.append(answered(output, f"c{number}"))
    return items


WON = (
    f"{CRM}_update_customer",
    {"customer_id": "00000001", "field": "notes", "new_value": "Call back"},
)
GONE = ("email_delete_email", {"email_id": "00000002"})
SENT = (
    "email_send_email",
    {"recipient": "ivo.petrov@example.com", "subject": "Tea", "body": "At four?"},
)
READ = ("email_search_emails", {"query": "tea"})


@pytest.mark.parametrize(
    ("calls", "reward"),
    [
        ([WON, GONE, SENT], 1.0),
        ([SENT, READ, GONE, WON, READ], 1.0),
        ([(WON[0], {**WON[1], "new_value": "call BACK"}), GONE, SENT], 1.0),
        ([WON, WON, GONE, SENT], 1.0),
        ([WON, GONE], 0.0),
        ([WON, GONE, SENT, SENT], 0.0),
        ([WON, GONE, (SENT[0], {**SENT[1], "body": "At five?"})], 0.0),
        ([(WON[0], {**WON[1], "customer_id": "00000003"}), GONE, SENT], 0.0),
        ([], 0.0),
    ],
)
def test_exactly_the_right_changes_are_rewarded(calls: list[Any], reward: float) -> None:
    found = verify(OFFICE, gold(WON, GONE, SENT), *made(*calls), said("Done."))

    assert found["reward"] == reward


def test_a_change_to_what_was_there_already_is_none() -> None:
    status = OFFICE.office().tables["customers"]["00000001"]["status"]
    same = (
        f"{CRM}_update_customer",
        {"customer_id": "00000001", "field": "status", "new_value": status},
    )

    assert verify(OFFICE, gold(), *made(same))["reward"] == 1.0


def test_a_call_that_was_never_run_does_not_count() -> None:
    name, arguments = GONE

    assert verify(OFFICE, gold(GONE), called(name, json.dumps(arguments)))["reward"] == 0.0


FOREIGN = ("email_delete_email", {"email_id": "00009999"})


def test_rows_over_other_records_are_judged_by_what_was_answered() -> None:
    assert verify(OFFICE, gold(FOREIGN), *made(FOREIGN))["reward"] == 1.0
    refused = made(FOREIGN, output='{"output":"Email not found."}')
    assert verify(OFFICE, gold(FOREIGN), *refused)["reward"] == 0.0
    assert verify(OFFICE, gold(), *made(FOREIGN))["reward"] == 0.0
    assert verify(OFFICE, gold(), *refused)["reward"] == 1.0


SAME_FIELD = (
    f"{CRM}_update_customer",
    {"customer_id": "00009999", "field": "notes", "new_value": "x"},
)
NEW_TASK = (
    "project_management_create_task",
    {
        "task_name": "Tea",
        "assigned_to_email": "nobody@elsewhere.com",
        "list_name": "Backlog",
        "due_date": "2023-12-01",
        "board": "Design",
    },
)


@pytest.mark.parametrize("call", [FOREIGN, SAME_FIELD, NEW_TASK, SENT], ids=lambda call: call[0])
@pytest.mark.parametrize(
    "refusal",
    [
        "Field not valid. Please choose from: 'status'",
        "Customer ID, field, or new value not provided.",
        "Failed to update the record.",
        "Assignee email not valid.",
        "Email not found.",
        "You can't do that: the mailbox is locked.",
    ],
)
def test_a_call_that_was_refused_elsewhere_is_not_made_here(call: Any, refusal: str) -> None:
    said_so = json.dumps({"output": refusal})

    assert verify(OFFICE, gold(), *made(call, output=said_so))["changes_made"] == 0


@pytest.mark.parametrize(
    "output", ['{"error": "timed out"}', '{"detail": [{"msg": "x"}]}', '{"error": {"type": "x"}}']
)
def test_an_output_in_the_shape_of_an_error_is_a_refusal(output: str) -> None:
    assert verify(OFFICE, gold(), *made(SENT, output=output))["changes_made"] == 0


@pytest.mark.parametrize(
    "output",
    [
        "Email deleted successfully.",
        "The email from no-reply@example.com was deleted: 'Not found, error'",
        "00009999",
        '{"output": {"email_id": "00009999", "subject": "No refund must be missing"}}',
        '{"output": "plots/not_found_error_2023.png"}',
        '{"output": true}',
    ],
)
def test_an_output_that_says_what_was_done_is_none(output: str) -> None:
    assert verify(OFFICE, gold(FOREIGN), *made(FOREIGN, output=output))["reward"] == 1.0


def test_words_of_a_refusal_in_what_this_office_answers_hide_no_change() -> None:
    times = {"time_min": "is not found error", "time_max": "invalid"}
    plot = ("analytics_create_plot", {**times, "value_to_plot": "total_visits", "plot_type": "bar"})
    answer = json.dumps({"output": use(Session("a"), plot[0], **plot[1])})

    assert verify(OFFICE, gold(), *made(plot, output=answer))["changes_made"] == 1


def test_calls_that_share_an_id_have_an_output_each() -> None:
    name, arguments = FOREIGN
    twice = [
        called(name, json.dumps(arguments)),
        answered(DONE),
        called(SENT[0], json.dumps(SENT[1])),
        answered('{"error": "x"}'),
    ]

    assert verify(OFFICE, gold(FOREIGN), *twice)["reward"] == 1.0


IDS = st.sampled_from(["00000001", "00000002", "00000101", "00000201", "9", ""])
WORDS = st.sampled_from(
    ["status", "notes", "board", "email_id", "Won", "Design", "not valid", "x@y"]
)
LIVE_CALLS = st.one_of(
    st.tuples(st.just("email_delete_email"), st.fixed_dictionaries({"email_id": IDS})),
    st.tuples(
        st.just("email_reply_email"), st.fixed_dictionaries({"email_id": IDS, "body": WORDS})
    ),
    st.tuples(
        st.just("email_forward_email"),
        st.fixed_dictionaries({"email_id": IDS, "recipient": WORDS}),
    ),
    st.tuples(
        st.just("email_send_email"),
        st.fixed_dictionaries({"recipient": WORDS, "subject": WORDS, "body": WORDS}),
    ),
    st.tuples(
        st.sampled_from([f"{CRM}_update_customer"]),
        st.fixed_dictionaries({"customer_id": IDS, "field": WORDS, "new_value": WORDS}),
    ),
    st.tuples(
        st.just("project_management_update_task"),
        st.fixed_dictionaries({"task_id": IDS, "field": WORDS, "new_value": WORDS}),
    ),
    st.tuples(st.just(f"{CRM}_delete_customer"), st.fixed_dictionaries({"customer_id": IDS})),
    st.tuples(
        st.just(f"{CRM}_add_customer"),
        st.fixed_dictionaries(
            {"customer_name": WORDS, "assigned_to_email": WORDS, "status": WORDS}
        ),
    ),
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(LIVE_CALLS, max_size=8))
def test_a_rollout_of_this_office_does_again_what_it_did_refusals_and_all(calls: list[Any]) -> None:
    live, items = Session("live"), []
    for number, (tool, arguments) in enumerate(calls):
        before = OFFICE.at(live).effects()
        said_so = use(live, tool, **arguments)
        if read_output(json.dumps({"output": said_so})).is_refused:
            assert OFFICE.at(live).effects() == before
        items.append(called(tool, json.dumps(arguments), f"c{number}"))
        items.append(answered(json.dumps({"output": said_so}), f"c{number}"))

    again = asyncio.run(OFFICE._effects_of(Response.model_validate(response(*items))))

    assert again == OFFICE.at(live).effects()


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.text() | st.booleans(), st.lists).map(json.dumps))
def test_no_output_makes_reading_it_raise(text: str) -> None:
    assert read_output(text).is_refused in {True, False}


def test_arguments_that_make_no_sense_change_nothing() -> None:
    nonsense = [
        called("email_delete_email", "[1]", "a"),
        answered(DONE, "a"),
        called("no_such_tool", "{}", "b"),
        answered(DONE, "b"),
    ]

    assert verify(OFFICE, gold(), *nonsense)["reward"] == 1.0


@pytest.mark.parametrize(
    "call", [("no_such_tool", {}), ("email_delete_email", {"mail": "1"})], ids=["tool", "argument"]
)
def test_gold_calls_that_cannot_be_made_are_the_rows_fault(call: Any) -> None:
    status, body = post_verify(OFFICE, gold(call), said("?"))

    assert status == 422
    assert "ground_truth[0]" in json.dumps(body)


def test_the_example_tasks_are_done_by_their_gold_calls_and_by_nothing_else() -> None:
    for row in example_rows("workplace_assistant"):
        calls = [(call["name"], json.loads(call["arguments"])) for call in row["ground_truth"]]
        assert verify(OFFICE, row, *made(*calls))["reward"] == 1.0
        assert verify(OFFICE, row, said("Done."))["reward"] == 0.0


def test_the_records_are_what_their_script_makes() -> None:
    assert json.loads(RECORDS.read_text()) == office()


def test_records_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "office.json"
    path.write_text('{"addresses": []}')

    with pytest.raises(ConfigError, match="cannot be read as the records of an office"):
        Office.load(path)


@pytest.mark.slow
@given(st.permutations([WON, GONE, SENT, READ, FOREIGN]))
def test_the_order_of_independent_calls_does_not_matter(calls: list[Any]) -> None:
    assert verify(OFFICE, gold(WON, GONE, SENT, FOREIGN), *made(*calls))["reward"] == 1.0
