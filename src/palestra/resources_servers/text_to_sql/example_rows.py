"""The rows of `data/example.jsonl`, written by running this module: five questions about a library's database."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

SYSTEM = """\
You answer questions about a database with one SQL query. Use only the tables and columns that \
are there. Give the query alone, in a ```sql block."""

SQLITE = """\
CREATE TABLE members (
  member_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT,
  joined TEXT NOT NULL
);
CREATE TABLE books (
  book_id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  author TEXT NOT NULL,
  pages INTEGER NOT NULL
);
CREATE TABLE loans (
  loan_id INTEGER PRIMARY KEY,
  member_id INTEGER NOT NULL REFERENCES members(member_id),
  book_id INTEGER NOT NULL REFERENCES books(book_id),
  taken TEXT NOT NULL,
  returned TEXT
);
INSERT INTO members VALUES
(1, 'Ines', 'Porto', '2023-02-01'), (2, 'Tomasz', 'Lublin', '2023-05-17'),
(3, 'Wei', 'Porto', '2024-01-09'), (4, 'Amara', NULL, '2024-03-30');
INSERT INTO books VALUES
(1, 'The Tin Harbour', 'L. Okafor', 212), (2, 'Salt Maps', 'L. Okafor', 340),
(3, 'A Field of Clocks', 'M. Brandt', 128), (4, 'Under the Weir', 'S. Ito', 455);
INSERT INTO loans VALUES
(1, 1, 1, '2024-02-01', '2024-02-20'), (2, 1, 2, '2024-03-01', NULL),
(3, 2, 1, '2024-03-05', '2024-03-18'), (4, 3, 4, '2024-03-09', NULL),
(5, 3, 2, '2024-01-12', '2024-02-02');"""

POSTGRESQL = SQLITE.replace("INTEGER PRIMARY KEY", "SERIAL PRIMARY KEY").replace(
    " TEXT", " VARCHAR"
)

QUESTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "sqlite",
        "Which books have more than 200 pages? Titles, the longest book first.",
        "SELECT title FROM books WHERE pages > 200 ORDER BY pages DESC",
    ),
    (
        "sqlite",
        "How many loans has each member taken? Name and number, members without a loan included.",
        """\
SELECT m.name, COUNT(l.loan_id) FROM members m
LEFT JOIN loans l ON l.member_id = m.member_id
GROUP BY m.member_id, m.name""",
    ),
    (
        "sqlite",
        "Who has a book that was not returned yet? Each name once.",
        """\
SELECT name FROM members
WHERE member_id IN (SELECT member_id FROM loans WHERE returned IS NULL)""",
    ),
    (
        "sqlite",
        "For each author with at least two books: the author and the average number of pages.",
        "SELECT author, AVG(pages) FROM books GROUP BY author HAVING COUNT(*) >= 2",
    ),
    (
        "postgresql",
        "How many members live in each city? City and number; leave out members without a city.",
        "SELECT city, COUNT(*) FROM members WHERE city IS NOT NULL GROUP BY city",
    ),
)


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    return [_row(number, *question) for number, question in enumerate(QUESTIONS)]


def _row(number: int, dialect: str, question: str, sql: str) -> dict[str, Any]:
    context = SQLITE if dialect == "sqlite" else POSTGRESQL
    content = f"SQL dialect: {dialect}\n\nThe database:\n\n{context}\n\nThe question: {question}"
    return {
        "responses_create_params": {
            "input": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": content},
            ]
        },
        "sql": sql,
        "sql_dialect": dialect,
        "sql_context": context,
        "sql_prompt": question,
        "uuid": f"text-to-sql-example-{number}",
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
