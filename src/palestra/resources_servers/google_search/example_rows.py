"""The rows of `data/example.jsonl` and the pages of `data/pages.jsonl`, written by running this module.

The questions are about a town that does not exist: only who searches can know.
"""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

INSTRUCTIONS = """\
Answer the multiple choice question. Use `search` to find pages and `browse` to read them, one call \
at a time. When you know, give the letter of the right option, and nothing else, inside \\boxed{}."""

TOOLS: tuple[dict[str, Any], ...] = tuple(
    {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {argument: {"type": "string", "description": what}},
            "required": [argument],
            "additionalProperties": False,
        },
        "strict": True,
    }
    for name, description, argument, what in (
        ("search", "Search for a query and return up to 10 results.", "query", "What to find."),
        ("browse", "Return the text of a web page.", "url", "The page's URL."),
    )
)

SITE = "https://orrin-vale.example"
PAGES: tuple[tuple[str, str, str], ...] = (
    (
        "history",
        "History of Orrin Vale",
        (
            "Orrin Vale grew around a ferry over the river Tarn in 1642. The ferry gave way to the "
            "Copper Bridge, which opened in 1871 and was paid for by the salt guild."
        ),
    ),
    (
        "bridge",
        "The Copper Bridge",
        (
            "The Copper Bridge has five arches. Its architect was Maud Ellery, who had built "
            "lighthouses before. Its plates turned green within twenty years."
        ),
    ),
    (
        "festival",
        "The lantern festival",
        (
            "On the last Saturday of October the people of Orrin Vale float paper lanterns down the "
            "river. The custom began as a signal to the night ferry."
        ),
    ),
    (
        "school",
        "Schools in Orrin Vale",
        (
            "There are two schools. The older one teaches in the former salt warehouse; the newer one, "
            "by the station, is known for its orchestra."
        ),
    ),
    (
        "railway",
        "Orrin Vale railway station",
        (
            "The station is the terminus of a narrow-gauge line of 31 kilometres. Three trains a day "
            "go to Hasp, none of them on Sundays."
        ),
    ),
    (
        "council",
        "The town council",
        (
            "The council of Orrin Vale has nine members. Meetings are public and are held in the old "
            "customs house on the first Tuesday of the month."
        ),
    ),
)

QUESTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "Who was the architect of the Copper Bridge in Orrin Vale?",
        ("The salt guild", "Maud Ellery", "A builder of railways", "Nobody knows"),
        "B",
    ),
    (
        "What was the lantern festival of Orrin Vale in the beginning?",
        ("A harvest feast", "A protest", "A market", "A signal to the ferry"),
        "D",
    ),
    (
        "How many members has the town council of Orrin Vale?",
        ("Nine", "Seven", "Eleven", "Twelve"),
        "A",
    ),
    (
        "On which day does no train leave Orrin Vale?",
        ("Tuesday", "Saturday", "Sunday", "Monday"),
        "C",
    ),
    (
        "Who paid for the bridge that replaced the ferry of Orrin Vale?",
        ("The railway", "The town council", "The salt guild", "The county"),
        "C",
    ),
)


def pages() -> list[dict[str, Any]]:
    """The pages of the offline index, in file order."""
    return [{"url": f"{SITE}/{name}", "title": title, "text": text} for name, title, text in PAGES]


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, *question) for number, question in enumerate(QUESTIONS)]


def _row(number: int, question: str, options: tuple[str, ...], expected: str) -> dict[str, Any]:
    listed = "\n".join(f"{letter}: {text}" for letter, text in zip("ABCD", options, strict=True))
    return {
        "responses_create_params": {
            "instructions": INSTRUCTIONS,
            "input": [{"role": "user", "content": f"{question}\n{listed}"}],
            "tools": list(TOOLS),
            "parallel_tool_calls": False,
        },
        "expected_answer": expected,
        "uuid": f"google-search-example-{number}",
    }


if __name__ == "__main__":
    data = Path(__file__).with_name("data")
    for name, held in (("example", rows()), ("pages", pages())):
        lines = b"".join(encode_json(row) + b"\n" for row in held)
        data.joinpath(f"{name}.jsonl").write_bytes(lines)
