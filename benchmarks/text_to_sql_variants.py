"""What `text_to_sql`'s variants find that the row's own database does not, on labelled pairs."""

import json
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from palestra.resources_servers.text_to_sql import execution

PAIRS = Path(__file__).with_name("text_to_sql_pairs.json")
NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def main() -> None:
    """Print a line for each number of variants: what is found wrong of which pairs."""
    recorded = json.loads(PAIRS.read_text())
    pairs = recorded["pairs"]
    for variants in (0, 5, 10, 20, 40):
        started = time.process_time()
        with patch.object(execution, "VARIANTS", variants):
            verdicts = Counter(
                (
                    label == "equivalent",
                    execution.compare(recorded["sql_context"], reference, candidate, NOW)[0],
                )
                for label, reference, candidate in pairs
            )
        mean_ms = (time.process_time() - started) * 1000 / len(pairs)
        print(
            f"{variants} variants: {verdicts[False, execution.DIFFERENT]} wrong found,"
            f" {verdicts[False, execution.SAME]} missed;"
            f" {verdicts[True, execution.SAME]} equivalent kept,"
            f" {verdicts[True, execution.DIFFERENT]} refused; {mean_ms:.0f} ms a pair"
        )


if __name__ == "__main__":
    main()
