"""The rows of `data/example.jsonl`, written by running this module: one of five families each."""

from pathlib import Path
from typing import Any

from palestra.resources_servers.reasoning_gym.generate import generate_rows
from palestra.schema import encode_json

FAMILIES = ("chain_sum", "family_relationships", "gcd", "knights_knaves", "number_sequence")


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return list(generate_rows(FAMILIES, count=5, seed=2026))


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
