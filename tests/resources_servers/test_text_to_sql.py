"""Queries: run on a database and its variants where that can be done, else judged."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import example_rows, post_verify, recorded, said, verify

from judge_fakes import REFERENCE, fleet, question_text
from palestra.resources_servers.text_to_sql.app import TextToSqlConfig, TextToSqlServer
from palestra.resources_servers.text_to_sql.execution import SAME, compare
from palestra.resources_servers.text_to_sql.extraction import extract_sql
from palestra.resources_servers.text_to_sql.queries import is_ordered, same_text
from palestra.sandbox import Crashed, Raised, Returned

EXAMPLES = example_rows("text_to_sql")
SQLITE = EXAMPLES[0]["sql_context"]
LONG_BOOKS = "SELECT title FROM books WHERE pages > 200"
LOANS = """
SELECT m.name, COUNT(l.loan_id) FROM members m
LEFT JOIN loans l ON l.member_id = m.member_id GROUP BY m.member_id, m.name"""
BORROWERS = """
SELECT name FROM members WHERE member_id IN (SELECT member_id FROM loans WHERE returned IS NULL)"""
ROW = {"sql": LONG_BOOKS, "sql_context": SQLITE, "sql_dialect": "sqlite", "sql_prompt": "Long?"}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```sql\nSELECT 1;\n```", "SELECT 1;"),
        ("First\n```sql\nSELECT 1\n```\nbetter\n```SQL\nSELECT 2\n```", "SELECT 2"),
        ("```sql\nSELECT 1\n```\n```python\nprint()\n```", "SELECT 1"),
        ("```\nSELECT 1\n```", "SELECT 1"),
        ("  select 1  ", "select 1"),
        # A result is no query, whether its block is marked, comes last, or is the only one.
        ("```\nSELECT 1\n```\nIt gives\n```\n| 1 |\n```", "SELECT 1"),
        ("```sql\nSELECT 1\n```\nIt gives\n```sql\n1 | a\n```", "SELECT 1"),
        ("SELECT ';' FROM t;\n\nResult:\n```text\n;\n```", "SELECT ';' FROM t;"),
        ("SELECT 1\nFROM t\n\nResult:\n```\n1\n```", "SELECT 1\nFROM t"),
        ("```python\nwith open(x) as f:\n    pass\n```\n```\nSELECT 1\n```", "SELECT 1"),
        ("```\nno query\n```", "no query"),
        # Behind comments, in parentheses, of a WITH or VALUES, between other fences.
        ("-- The answer:\nSELECT 1", "-- The answer:\nSELECT 1"),
        ("/* The\nanswer */ SELECT 1", "/* The\nanswer */ SELECT 1"),
        ("(SELECT 1) UNION (SELECT 2)", "(SELECT 1) UNION (SELECT 2)"),
        ("```\n-- a\n( /* b */ SELECT 1)\n```\n```\n1\n```", "-- a\n( /* b */ SELECT 1)"),
        ("WITH x(a) AS (SELECT 1) SELECT a FROM x", "WITH x(a) AS (SELECT 1) SELECT a FROM x"),
        ("With this I cannot help.", None),
        ("VALUES (1)", "VALUES (1)"),
        ("~~~sql\nSELECT 1\n~~~", "SELECT 1"),
        ("~~~SQL\nSELECT 1\n~~~\n```\n1\n```", "SELECT 1"),
        ("Say ```sql``` first:\n```sql\nSELECT 1\n```", "SELECT 1"),
        ("~~~sql\nSELECT 1\n```", None),
        # In other ways that models have.
        ("SQL: SELECT 1", "SELECT 1"),
        ("It is short.\n**SQL query:** SELECT a\nFROM t\n\nIt lists a.", "SELECT a\nFROM t"),
        ("Answer:\nSELECT ';' FROM t; as you asked.", "SELECT ';' FROM t;"),
        ("`SELECT a FROM t`", "SELECT a FROM t"),
        ("Use the column `a`:\n\n`SELECT a FROM t;` gives `a`.", "SELECT a FROM t;"),
        ("SELECT `a` FROM `t`", "SELECT `a` FROM `t`"),
        ("<sql>SELECT 1</sql>", "SELECT 1"),
        ("No: <sql>SELECT 1</sql>\nBetter: <SQL>\nSELECT 2\n</SQL>", "SELECT 2"),
        ("Hence \\boxed{SELECT '{}' FROM t}.", "SELECT '{}' FROM t"),
        ("\\boxed{\\text{SELECT 1}}", "SELECT 1"),
        ("```sql\nSELECT 1", "SELECT 1"),
        ("So:\n```python\nx\n```\n~~~\nSELECT 2\n", "SELECT 2"),
        ("```sql\nI cannot", None),
        ("SQL: I cannot say. `a` is <sql>no</sql> column, \\boxed{none", None),
        ("```sql\n\n```", None),
        ("I cannot say.", None),
        ("", None),
        ("```sql\nSELECT '" + "x" * 60_000 + "'\n```", None),
    ],
)
def test_the_query_is_in_the_last_closed_block_that_holds_one(text: str, query: str | None) -> None:
    assert extract_sql(text) == query


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("SELECT a,  b\nFROM t;", "SELECT a, b FROM t", True),
        ("SELECT 'a  b'", "SELECT 'a b'", False),
        ("SELECT 1 -- a\n, 2", "SELECT 1 -- a , 2", False),
        ("SELECT a", "SELECT A", False),
    ],
)
def test_queries_that_differ_in_blanks_are_the_same_text(
    first: str, second: str, same: bool
) -> None:
    assert same_text(first, second) is same


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x", False),
        ("SELECT ' ORDER BY ' FROM t -- order by", False),
        ("SELECT ROW_NUMBER() OVER (ORDER BY a) FROM t", False),
    ],
)
def test_only_an_order_of_the_result_is_one(query: str, ordered: bool) -> None:
    assert is_ordered(query) is ordered


@given(
    st.text()
    | st.lists(st.sampled_from(["```", "sql", "\n", "'", "(", ")", "[", "--"])).map("".join)
)
def test_no_text_makes_reading_raise(text: str) -> None:
    extract_sql(text)
    is_ordered(text)
    assert same_text(text, text)


@pytest.mark.slow
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece",
    [
        "```",
        "```sql\n",
        "~~~",
        "~~~sql\n",
        "'",
        "(",
        "/*",
        "--",
        '"',
        "[",
        "`",
        "<sql>",
        "SQL:\n",
        "\\boxed{",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    text = piece * 200_000
    assert extract_sql(text) is None
    assert is_ordered(text[:50_000]) is False


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (LONG_BOOKS, "SELECT b.title AS t FROM books AS b WHERE NOT pages <= 200"),
        (LONG_BOOKS, "SELECT title FROM books WHERE pages > 200 ORDER BY title"),
        (LOANS, "SELECT name, (SELECT COUNT(*) FROM loans l WHERE l.member_id = m.member_id) FROM members m"),
        (BORROWERS, "SELECT name FROM members m WHERE EXISTS (SELECT 1 FROM loans WHERE member_id = m.member_id AND returned IS NULL)"),
        ("SELECT AVG(pages) FROM books", "SELECT SUM(pages) * 1.0 / COUNT(*) FROM books"),
    ],
)  # fmt: skip
def test_queries_that_mean_the_same_are_the_same(reference: str, candidate: str) -> None:
    assert compare(SQLITE, reference, candidate)[0] == "same"


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (LONG_BOOKS, "SELECT title FROM books WHERE pages >= 200"),
        (LONG_BOOKS, "SELECT title FROM books WHERE pages > 201"),
        (LONG_BOOKS, "SELECT title, pages FROM books WHERE pages > 200"),
        (LONG_BOOKS, "SELECT 'Salt Maps' UNION SELECT 'Under the Weir' UNION SELECT 'The Tin Harbour'"),
        (LONG_BOOKS + " ORDER BY pages", "SELECT title FROM books WHERE pages > 200 ORDER BY title"),
        (LOANS, LOANS.replace("LEFT JOIN", "JOIN")),
        (LOANS, LOANS.replace("COUNT(l.loan_id)", "COUNT(*)")),
        (BORROWERS, "SELECT name FROM members JOIN loans USING (member_id) WHERE returned IS NULL"),
        (LONG_BOOKS, "PRAGMA table_info(books)"),
        (LONG_BOOKS, ""),
    ],
)  # fmt: skip
def test_queries_that_mean_something_else_come_apart(reference: str, candidate: str) -> None:
    assert compare(SQLITE, reference, candidate)[0] == "different"


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        ("ATTACH DATABASE '{file}' AS x", "not authorized"),
        ("VACUUM INTO '{file}'", "authorization denied"),
        ("SELECT load_extension('{file}')", "not authorized"),
        ("SELECT fts3_tokenizer('simple')", "not authorized"),
        ("SELECT * FROM pragma_database_list", "not authorized"),
        ("DROP TABLE books", "not authorized"),
        ("UPDATE books SET pages = 1", "not authorized"),
        ("CREATE TEMP TABLE x AS SELECT 1", "not authorized"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT hex(zeroblob(900000000))", "too big"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c", "rows"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT MAX(x) FROM c", "interrupted"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "overflow"),
        ("SELECT \x00 1", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELEC 1", "syntax error"),
    ],
)  # fmt: skip
def test_a_query_that_reaches_out_or_never_ends_fails(
    tmp_path: Path, candidate: str, why: str
) -> None:
    verdict, told = compare(SQLITE, LONG_BOOKS, candidate.format(file=tmp_path / "leak"))

    assert (verdict, why in told) == ("failed", True), told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("context", "reference"),
    [
        (SQLITE, "SELECT title FROM nowhere"),
        (SQLITE, "SELECT title FROM books WHERE 1 = 2"),
        ("CREATE TABL x (y);", "SELECT 1"),
    ],
)
def test_a_reference_that_says_nothing_decides_nothing(context: str, reference: str) -> None:
    assert compare(context, reference, "SELECT title FROM books WHERE 0")[0] == "undecided"


def test_a_schema_without_rows_is_filled_with_made_up_ones() -> None:
    schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, price REAL, day DATE, name TEXT);"

    assert (
        compare(schema, "SELECT name FROM t WHERE price > 20", "SELECT name FROM t")[0]
        == "different"
    )
    assert compare(schema, "SELECT MAX(day) FROM t", "SELECT MAX(day) FROM t")[0] == "same"


def test_equals_may_stand_in_any_order_and_a_limit_among_them_decides_nothing() -> None:
    script = "CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (1, 1), (2, 1), (3, 1);"

    assert (
        compare(script, "SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b, a DESC")[0]
        == "same"
    )
    last = "SELECT a FROM t ORDER BY b, a DESC LIMIT 1"
    assert compare(script, "SELECT a FROM t ORDER BY b LIMIT 1", last)[0] in {"same", "undecided"}


def server(says: Any = None, **settings: Any) -> tuple[TextToSqlServer, Any]:
    client, judge = fleet(says or (lambda _text: pytest.fail("the judge was asked")))
    made = {"name": "under_test", "judge_model_server": REFERENCE, **settings}
    config = TextToSqlConfig.model_validate(made)
    return TextToSqlServer(config=config, server_client=client), judge


def answer(made: TextToSqlServer, row: dict[str, Any], query: str) -> dict[str, Any]:
    async def end() -> None:
        await made.stop()

    result = verify(made, row, said(f"```sql\n{query}\n```"))
    asyncio.run(end())
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "reward", "reason"),
    [
        (LONG_BOOKS + ";", 1.0, "none"),
        ("SELECT title FROM books WHERE 200 < pages", 1.0, "none"),
        ("SELECT title FROM books", 0.0, "execution_differs"),
        ("SELECT nothing", 0.0, "execution_failed"),
        ("", 0.0, "no_sql_extracted"),
    ],
)
def test_sqlite_is_run_and_no_judge_is_asked(query: str, reward: float, reason: str) -> None:
    result = answer(server()[0], ROW, query)

    assert (result["reward"], result["failure_reason"]) == (reward, reason)


SLOW = "SELECT instr(hex(zeroblob(450000)), hex(zeroblob(220000)) || '1')"


@pytest.mark.slow
def test_a_query_that_hangs_in_native_code_is_stopped_and_worth_nothing() -> None:
    result = answer(server(execution_limit_s=1.0)[0], ROW, SLOW)

    assert (result["reward"], result["execution"]) == (0.0, "stopped after 1 s")


@pytest.mark.slow
def test_a_model_is_not_blamed_for_a_row_whose_own_query_hangs() -> None:
    made, _ = server(execution_limit_s=1.0)

    status, body = post_verify(made, {**ROW, "sql": SLOW}, said(f"```sql\n{LONG_BOOKS}\n```"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert "the row's own `sql` does not end within the limits" in body["error"]["message"]


@pytest.mark.parametrize(("label", "reward"), [("[[A=B]]", 1.0), ("[[A!=B]]", 0.0)])
def test_other_dialects_are_judged_with_schema_and_question(label: str, reward: float) -> None:
    made, judge = server(lambda _: label)

    result = answer(made, {**ROW, "sql_dialect": "mysql"}, "SELECT title FROM books")

    assert (result["reward"], result["judge_passed"]) == (reward, reward == 1.0)
    text = question_text(judge.asked[0])
    assert all(part in text for part in ("mysql", "CREATE TABLE members", "Long?", LONG_BOOKS))


class BrokenWorkers:
    """Workers whose function raises."""

    async def call(self, *_: Any, **__: Any) -> Raised:
        return Raised("KeyError", "'x'", "")


def test_a_comparison_that_raises_is_the_environments_fault_and_no_reward() -> None:
    made = server()[0]
    made.__dict__["_workers"] = BrokenWorkers()

    status, body = post_verify(made, ROW, said("```sql\nSELECT 1\n```"))

    assert (status >= 400, body["error"]["type"]) == (True, "verifier_error")
    assert "comparing the queries raised KeyError: 'x'" in body["error"]["message"]
    assert body["error"]["hint"]


class CrashingOnce:
    """Workers whose first call crashes."""

    def __init__(self) -> None:
        self.outcomes: list[Crashed | Returned] = [Crashed(11), Returned([SAME, "on 41 databases"])]

    async def call(self, *_: Any, **__: Any) -> Crashed | Returned:
        return self.outcomes.pop(0)

    async def close(self) -> None: ...


def test_a_crash_that_does_not_happen_again_is_not_the_querys() -> None:
    made = server()[0]
    made.__dict__["_workers"] = CrashingOnce()

    assert answer(made, ROW, "SELECT title FROM books WHERE 200 < pages")["reward"] == 1.0


def test_where_running_decides_nothing_the_judge_does() -> None:
    row = {**ROW, "sql": "SELECT title FROM books WHERE 1 = 2"}

    assert answer(server(lambda _: "[[A=B]]")[0], row, "SELECT 1 WHERE 0")["reward"] == 1.0


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({**ROW, "sql": "SELECT title FROM nowhere"}, "data_error"),
        ({**ROW, "sql_dialect": "mysql"}, "judge_error"),
    ],
)
def test_without_a_judge_what_cannot_be_run_gets_no_reward(row: Any, kind: str) -> None:
    made = server(judge_model_server=None)[0]

    status, body = post_verify(made, row, said("```sql\nSELECT 1\n```"))

    asyncio.run(made.stop())
    assert status >= 400
    assert body["error"]["type"] == kind


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["uuid"])
def test_the_reference_queries_of_the_example_rows_are_right(row: dict[str, Any]) -> None:
    again = compare(row["sql_context"], row["sql"], f"SELECT * FROM ({row['sql']})")

    assert again[0] == "same"


def test_recorded_rollouts_get_their_reward_from_the_recorded_judge() -> None:
    made, _ = server()

    for row, result in recorded("text_to_sql"):
        held = {"judge_evaluations": result["judge_evaluations"], "_ng_judge_replay": True}
        ours = verify(made, {**row, **held}, *result["response"]["output"])
        told = ("reward", "extracted_sql", "judge_passed", "failure_reason", "judge_evaluations")
        assert {name: ours[name] for name in told} == {name: result[name] for name in told}
