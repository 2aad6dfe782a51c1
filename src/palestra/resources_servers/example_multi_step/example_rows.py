"""The rows of `data/example.jsonl`, written by running this module: five queries over one short list of synonyms."""

from pathlib import Path

from palestra.resources_servers.example_multi_step.app import SynonymServer, value_of
from palestra.schema import encode_json
from palestra.serving import tool_schema

SYNONYMS = (
    ("Quiet", "Hushed"),
    ("Cold", "Chilly"),
    ("Fast", "Speedy"),
    ("Happy", "Joyful"),
    ("Cold", "Frosty"),
    ("Big", "Huge"),
    ("Quiet", "Silent"),
    ("Happy", "Merry"),
    ("Fast", "Rapid"),
    ("Big", "Vast"),
    ("Happy", "Glad"),
    ("Cold", "Icy"),
)

QUERIES = (
    ("Why do my fingers hurt when I build a snowman?", "Cold"),
    ("How does a library keep people from talking?", "Quiet"),
    ("Which train should I take if I am in a hurry?", "Fast"),
    ("What makes a birthday party a success?", "Happy"),
    ("How do I describe an elephant to a child?", "Big"),
)

INSTRUCTIONS = """\
You extract values with tools. Below is a list of terms with their synonyms. Find the one term that
the user's query is about. Get the value of each synonym of that term with get_synonym_value, then
hand in all the values with one call of extract_synonym_values, in the order in which the synonyms
appear in the list. Hand in values of synonyms only, never the value of the term itself.

"""


def rows() -> list[dict[str, object]]:
    """The five rows, in file order."""
    listed = "\n".join(f"- {word} is a synonym of {term}" for term, word in SYNONYMS)
    methods = (SynonymServer.get_synonym_value, SynonymServer.extract_synonym_values)
    tools = [tool_schema(method) for method in methods]
    return [
        _row(number, query, term, listed, tools) for number, (query, term) in enumerate(QUERIES)
    ]


def _row(
    number: int, query: str, term: str, listed: str, tools: list[dict[str, object]]
) -> dict[str, object]:
    words = [word for of, word in SYNONYMS if of == term]
    return {
        "id": number,
        "responses_create_params": {
            "input": [
                {"role": "system", "content": INSTRUCTIONS + listed},
                {"role": "user", "content": query},
            ],
            "tools": tools,
        },
        "expected_synonyms": words,
        "expected_synonym_values": [value_of(word) for word in words],
        "minefield_label": term,
        "minefield_label_value": value_of(term),
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
