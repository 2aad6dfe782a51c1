"""Prepare the capitals benchmark."""

import json
from pathlib import Path

from nemo_gym.global_config import get_hf_token

BENCHMARK_DIR = Path(__file__).parent
DATA_DIR = BENCHMARK_DIR / "data"
OUTPUT_FPATH = DATA_DIR / "capitals_benchmark.jsonl"

CAPITALS = {"France": ("Paris", "Paris"), "Japan": ("Tokyo", "Kyoto")}


def prepare() -> Path:
    """Write the rows and return their path."""
    get_hf_token()
    DATA_DIR.mkdir(parents=True, exist_ok=True)
    with OUTPUT_FPATH.open("w") as f:
        for country, (capital, answer) in CAPITALS.items():
            row = {"country": country, "answer": answer, "expected_answer": capital}
            f.write(json.dumps(row) + "\n")
    return OUTPUT_FPATH


if __name__ == "__main__":
    prepare()
