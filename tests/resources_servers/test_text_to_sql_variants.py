"""Variants of a database hold what it could hold, and what tells queries apart."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.resources_servers.text_to_sql.constants import spoken_of
from palestra.resources_servers.text_to_sql.database import Database, Refused
from palestra.resources_servers.text_to_sql.domains import Said
from palestra.resources_servers.text_to_sql.execution import compare
from palestra.resources_servers.text_to_sql.variants import fill, plan

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
CLINIC = """
CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT, email TEXT, ward TEXT);
CREATE TABLE visits (visit_no INT, doctor_id INT, seen TEXT, left TEXT, fee REAL, urgent INT,
  kind TEXT, notes TEXT, data TEXT, substitute_id INT REFERENCES doctors(id));
INSERT INTO doctors VALUES (1, 'Ada Ruiz', 'ada@clinic.org', 'North'),
  (2, 'Bo Lind', 'bo@clinic.org', 'North'), (3, 'Cy Wu', 'cy@clinic.com', 'South');
INSERT INTO visits VALUES
  (1, 1, '2024-05-01 08:30', '2024-05-01 09:00', 40.0, 0, 'check', NULL, '{"a": 1}', NULL),
  (2, 1, '2024-05-02 10:00', '2024-05-02 10:45', 55.5, 1, 'fever', 'Again', '{"a": 2}', 2),
  (3, 2, '2024-05-03 11:15', '2024-05-04 07:00', 90.0, 1, 'check', NULL, '{}', 1);
"""


def contents(reference: str, candidate: str = "", count: int = 40) -> Iterator[Database]:
    """A database that holds one variant after the other."""
    with Database(CLINIC, NOW) as database:
        names = ["id", "name", "email", "ward", "seen", "left", "fee", "urgent", "kind", "notes"]
        said = Said(spoken_of(reference, names), spoken_of(candidate, names), NOW)
        made = plan(database, said)
        for number in range(count):
            fill(database, made, number)
            yield database


def values(column: str, reference: str, candidate: str = "") -> list[Any]:
    """All that a column holds in any variant."""
    query = f"SELECT {column}"
    return [row[0] for database in contents(reference, candidate) for row in database.query(query)]


@pytest.mark.parametrize(
    "never",
    [
        # A date is written as the others are, and is not in the future.
        "SELECT seen FROM visits WHERE seen <> strftime('%Y-%m-%d %H:%M', seen) OR seen > '2026-03-15'",
        "SELECT seen FROM visits WHERE left < seen",
        # What was never NULL is not, and no name comes twice.
        "SELECT 1 FROM visits WHERE visit_no IS NULL OR kind IS NULL OR fee IS NULL OR seen IS NULL",
        "SELECT lower(name) FROM doctors GROUP BY 1 HAVING COUNT(*) > 1",
        "SELECT email FROM doctors GROUP BY 1 HAVING COUNT(*) > 1",
        "SELECT visit_no FROM visits GROUP BY 1 HAVING COUNT(*) > 1",
        # References hold, those that nobody declared as well.
        "SELECT 1 FROM visits WHERE doctor_id NOT IN (SELECT id FROM doctors)",
        "SELECT 1 FROM visits WHERE substitute_id NOT IN (SELECT id FROM doctors)",
        # Numbers keep their sign, flags their values, texts their shape.
        "SELECT fee FROM visits WHERE fee <= 0 OR fee <> round(fee, 2)",
        "SELECT urgent FROM visits WHERE urgent NOT IN (0, 1)",
        "SELECT email FROM doctors WHERE email NOT LIKE '%_@_%._%'",
        "SELECT data FROM visits WHERE NOT json_valid(data)",
        # No table is empty.
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM doctors) OR NOT EXISTS (SELECT 1 FROM visits)",
    ],
)  # fmt: skip
def test_what_holds_in_the_rows_at_hand_holds_in_every_variant(never: str) -> None:
    asked = "SELECT * FROM visits WHERE strftime('%Y', seen) = '2020' AND fee > 30 AND urgent = 2 AND kind = 'x'"
    guess = "SELECT * FROM visits WHERE seen > date('now', '-9 days') AND fee > -5 AND ward = 'x' AND email = 'x'"

    assert all(database.query(never) == [] for database in contents(asked, guess))


def test_a_date_is_made_near_the_others_near_the_constants_and_near_today() -> None:
    query = "SELECT 1 FROM visits WHERE seen > '2021-07-04' OR seen > date('now', '-30 days')"
    days = {value[:10] for value in values("seen FROM visits", query)}

    assert {"2021-07-03", "2021-07-04", "2021-07-05"} <= days
    assert {"2026-02-11", "2026-02-12", "2026-02-13"} <= days
    assert any("2024-03" < day < "2024-07" and day not in CLINIC for day in days)


def test_a_text_is_made_that_no_query_names_and_one_in_another_case() -> None:
    query = "SELECT 1 FROM visits WHERE kind = 'check'"
    kinds = set(values("kind FROM visits", query))

    assert {"CHECK", "Check"} <= kinds
    assert [kind for kind in kinds if kind.lower() not in {"check", "fever"}]


def test_null_is_put_where_the_reference_asks_for_it_and_never_in_a_key() -> None:
    query = "SELECT 1 FROM visits WHERE kind IS NULL AND fee IS NOT NULL AND visit_no IS NULL"

    assert None in values("kind FROM visits", query)
    assert None in values("fee FROM visits", query)
    assert None not in values("visit_no FROM visits", query)
    assert None not in values("kind FROM visits", "SELECT 1", query)


def test_a_verdict_can_be_repeated() -> None:
    query = "SELECT name FROM doctors WHERE ward = 'North'"
    rows = [[database.query("SELECT * FROM visits") for database in contents(query)] for _ in "ab"]

    assert rows[0] == rows[1]


def test_both_queries_see_one_instant() -> None:
    query = "SELECT datetime('now'), CURRENT_TIMESTAMP, date(), strftime('%H'), julianday('NOW') - julianday()"

    with Database("", NOW) as database:
        assert database.query(query) == [
            ("2026-03-14 15:09:26", "2026-03-14 15:09:26", "2026-03-14", "15", 0.0)
        ]


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        # A variant without a match: SUM says NULL, a count says 0, a list says nothing.
        ("SELECT SUM(fee) FROM visits WHERE kind = 'fever'", "SELECT COALESCE(SUM(fee), 0) FROM visits WHERE kind = 'fever'"),
        ("SELECT MAX(fee) FROM visits WHERE urgent = 1", "SELECT fee FROM visits WHERE urgent = 1 ORDER BY fee DESC LIMIT 1"),
        ("SELECT ward FROM doctors WHERE name = 'Cy Wu'", "SELECT MAX(ward) FROM doctors WHERE name = 'Cy Wu'"),
    ],
)  # fmt: skip
def test_where_the_reference_says_nothing_no_variant_decides(
    reference: str, candidate: str
) -> None:
    assert compare(CLINIC, reference, candidate, NOW)[0] == "same"


@pytest.mark.parametrize(
    "script",
    [
        # References in a circle, to itself, to nothing.
        "CREATE TABLE a (id INTEGER PRIMARY KEY, b_id INT NOT NULL REFERENCES b(id)); CREATE TABLE b (id INTEGER PRIMARY KEY, a_id INT REFERENCES a(id)); INSERT INTO a VALUES (1, 1), (2, 1); INSERT INTO b VALUES (1, 2);",
        "CREATE TABLE a (id INTEGER PRIMARY KEY, up INT NOT NULL REFERENCES a(id)); INSERT INTO a VALUES (1, 1), (2, 1), (3, 2);",
        "CREATE TABLE a (id INTEGER PRIMARY KEY, up INT REFERENCES gone(id), x INT REFERENCES a(gone)); INSERT INTO a VALUES (1, 1, 1), (2, 1, 1), (3, 2, NULL);",
        # Keys of two columns, and rules that no new value keeps.
        "CREATE TABLE a (x INT, id INT, PRIMARY KEY (x, id)) WITHOUT ROWID; CREATE TABLE c (x INT, y INT, FOREIGN KEY (x, y) REFERENCES a); INSERT INTO a VALUES (1, 1), (1, 2); INSERT INTO c VALUES (1, 2), (NULL, 2);",
        "CREATE TABLE a (id TEXT CHECK (id IN ('p', 'q')), n INT CHECK (n = 7)); INSERT INTO a VALUES ('p', 7), ('q', 7);",
        # Far off: the last day, huge numbers, bytes, columns that are computed, triggers.
        "CREATE TABLE a (id INT, until TEXT, since TEXT); INSERT INTO a VALUES (1, '9999-12-31', '0001-01-01'), (2, '9999-12-30', '1000-01-01');",
        "CREATE TABLE a (id INT, x REAL, y BLOB); INSERT INTO a VALUES (9223372036854775807, 9e999, x'00ff'), (-9223372036854775808, -1e300, NULL);",
        "CREATE TABLE a (id INT, x INT, y INT AS (x * 2) STORED); INSERT INTO a (id, x) VALUES (1, 2), (2, 3);",
        "CREATE TABLE a (id INT, x INT); CREATE TABLE log (x INT); CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO log VALUES (NEW.x); END; INSERT INTO a VALUES (1, 1), (2, 5);",
        "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, \"odd \"\"name\" TEXT UNIQUE COLLATE NOCASE); INSERT INTO a (\"odd \"\"name\") VALUES ('x y'), ('');",
    ],
)  # fmt: skip
def test_a_schema_of_any_kind_has_variants_that_decide(script: str) -> None:
    verdict, why = compare(script, "SELECT id FROM a", "SELECT a.id FROM a AS a", NOW)

    assert verdict == "same"
    assert int(why.split()[4]) > 10, why


def test_a_database_whose_script_cannot_be_run_is_closed() -> None:
    with pytest.raises(Refused) as refused:
        Database("CREATE nothing", NOW)

    made = [entry.locals["self"] for entry in refused.traceback if "self" in entry.locals]
    with pytest.raises(Refused, match="closed"):
        made[0].query("SELECT 1")


VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary(max_size=3) | (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    | st.dates().map(str)
    | st.datetimes().map(str)
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=6), VALUES)
def test_no_rows_and_no_constants_make_comparing_raise(rows: list[Any], constant: Any) -> None:
    def told(value: Any) -> str:
        with closing(sqlite3.connect(":memory:")) as connection:
            return str(connection.execute("SELECT quote(?)", (value,)).fetchone()[0])

    listed = [f"({', '.join(map(told, row))})" for row in rows]
    script = "CREATE TABLE t (id, day DATE, label TEXT);" + (
        f"INSERT INTO t VALUES {', '.join(listed)};" if rows else ""
    )
    wanted = told(constant)
    reference = f"SELECT id FROM t WHERE day >= {wanted} OR id < {wanted} OR label LIKE {wanted}"

    verdict, _ = compare(script, reference, f"SELECT t.id FROM t WHERE NOT (day < {wanted})", NOW)

    assert verdict in {"same", "different", "undecided", "failed"}
