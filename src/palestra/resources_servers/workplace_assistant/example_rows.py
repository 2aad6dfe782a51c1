"""The rows of `data/example.jsonl`, written by running this module: one task for each group of tools, its gold calls found in the records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from palestra.resources_servers.workplace_assistant.app import (
    RECORDS,
    WorkplaceServer,
    WorkplaceServerConfig,
)
from palestra.resources_servers.workplace_assistant.records import Office, Record
from palestra.schema import encode_json
from palestra.transport import AiohttpTransport, ServerClient

SITUATION = (
    "Today is Thursday, 2023-11-30 and it is 23:59:00. Meetings must not start before 9am or end "
    "after 6pm."
)
Call = tuple[str, dict[str, str]]
Rule = Callable[[Record], bool]


def _ids(office: Office, table: str, rule: Rule) -> list[str]:
    return [number for number, record in office.tables[table].items() if rule(record)]


def _latest(office: Office, table: str, by: str, rule: Rule) -> str:
    held = office.tables[table]
    return max(_ids(office, table, rule), key=lambda number: held[number][by])


def _tasks(office: Office) -> list[tuple[str, str, list[Call]]]:
    reply = {
        "email_id": _latest(
            office,
            "emails",
            "sent_datetime",
            lambda m: m["sender/recipient"].startswith("hana") and m["inbox/outbox"] == "inbox",
        ),
        "body": "Thank you, I will look at it tomorrow.",
    }
    event = {
        "event_id": _latest(office, "events", "event_start", lambda _: True),
        "field": "event_name",
        "new_value": "Year's end",
    }
    leads = _ids(
        office,
        "customers",
        lambda c: c["product_interest"] == "Training" and c["status"] == "Lead",
    )
    overdue = _ids(
        office,
        "tasks",
        lambda t: (
            t["board"] == "Design"
            and t["due_date"] < "2023-11-30"
            and t["list_name"] == "In Review"
        ),
    )
    plot = {
        "time_min": "2023-11-01",
        "time_max": "2023-11-30",
        "value_to_plot": "visits_referral",
        "plot_type": "line",
    }
    crm, projects = "customer_relationship_manager", "project_management"
    return [
        (
            "email",
            f"Reply to the last email from Hana with '{reply['body']}'",
            [("email_reply_email", reply)],
        ),
        (
            "calendar",
            "Rename the very last event in my calendar to Year's end",
            [("calendar_update_event", event)],
        ),
        (
            crm,
            "Give all leads that are interested in training to Ivo",
            [
                (
                    f"{crm}_update_customer",
                    {
                        "customer_id": number,
                        "field": "assigned_to_email",
                        "new_value": "ivo.petrov@example.com",
                    },
                )
                for number in leads
            ],
        ),
        (
            projects,
            "Delete every task on the Design board that is in review and was due before today",
            [(f"{projects}_delete_task", {"task_id": number}) for number in overdue],
        ),
        (
            "analytics",
            "Plot the referral visits of November 2023 as a line",
            [("analytics_create_plot", plot)],
        ),
    ]


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    server = WorkplaceServer(
        config=WorkplaceServerConfig(), server_client=ServerClient({}, AiohttpTransport())
    )
    tools = list(server.tools().values())
    tasks = _tasks(Office.load(RECORDS))
    return [_row(number, tools, *task) for number, task in enumerate(tasks)]


def _row(
    number: int, tools: list[dict[str, Any]], category: str, question: str, calls: list[Call]
) -> dict[str, Any]:
    return {
        "id": number,
        "responses_create_params": {
            "input": [
                {"role": "system", "content": SITUATION},
                {"role": "user", "content": question},
            ],
            "tools": tools,
            "parallel_tool_calls": False,
        },
        "ground_truth": [
            {"name": name, "arguments": orjson.dumps(arguments).decode()}
            for name, arguments in calls
        ],
        "category": f"workplace_assistant_{category}",
        "environment_name": "workplace_assistant",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
