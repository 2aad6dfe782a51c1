"""Write docs/reference/troubleshooting.md from the table of signatures; a test holds the two in step."""

from pathlib import Path

from palestra.causes import SignatureTable, troubleshooting

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "reference" / "troubleshooting.md"

if __name__ == "__main__":
    DOCUMENT.write_text(troubleshooting(SignatureTable.load()), encoding="utf-8")
    print(f"wrote {DOCUMENT}")
