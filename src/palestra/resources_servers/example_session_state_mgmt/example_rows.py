"""The rows of `data/example.jsonl`, written by running this module: five short sums on a counter."""

from pathlib import Path

from palestra.resources_servers.example_session_state_mgmt.app import CounterServer
from palestra.schema import encode_json
from palestra.serving import tool_schema

TASKS = (
    (10, (5,), "Raise the counter by 5 and tell me what it shows."),
    (0, (2, 4), "Add 2 to the counter, then 4 more, and read it out."),
    (7, (-3,), "Take 3 off the counter. What is left?"),
    (100, (11, 22, 33), "Count up by 11, by 22 and by 33, then give me the total."),
    (4, (), "Do not touch the counter. Just tell me its value."),
)


def rows() -> list[dict[str, object]]:
    """The five rows, in file order."""
    methods = (CounterServer.increment_counter, CounterServer.get_counter_value)
    tools = [tool_schema(method) for method in methods]
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": request}],
                "tools": tools,
            },
            "initial_count": initial,
            "expected_count": initial + sum(steps),
        }
        for initial, steps, request in TASKS
    ]


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
