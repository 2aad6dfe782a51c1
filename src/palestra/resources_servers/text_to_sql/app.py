"""`TextToSqlServer`: a query is right when it means the same as the reference query.

For SQLite, both queries run on the row's database and on variants of it. Other dialects have no
database here, so a judge compares the queries.
"""

from functools import cached_property
from typing import Any, ClassVar

from pydantic import Field

from palestra.errors import RowError, VerifierError
from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.stopped import Call, outcome_of
from palestra.resources_servers.text_to_sql.execution import DIFFERENT, FAILED, SAME
from palestra.resources_servers.text_to_sql.extraction import extract_sql
from palestra.resources_servers.text_to_sql.queries import same_text
from palestra.sandbox import Crashed, OutOfMemory, Raised, TimedOut, Workers, open_workers
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import Hearing, Judge, JudgeConfig, Ruling

_EXECUTION = "palestra.resources_servers.text_to_sql.execution"

SQLITE = frozenset({"sqlite", "sqlite3"})
FIRST, SECOND = "first_query", "second_query"

NO_SQL = "no_sql_extracted"
JUDGED_DIFFERENT = "judge_evaluation_failed"
ORDER_MATTERS = "swap_check_failed"
EXECUTION_DIFFERS = "execution_differs"
EXECUTION_FAILED = "execution_failed"
NONE = "none"

SYSTEM = """\
You decide whether two SQL queries are equivalent: whether, on every database that conforms to \
the schema, they return the same rows with the same values in the same columns.

No difference: layout, letter case of keywords, aliases, names of result columns, one join syntax \
or another, a subquery or a common table expression, parentheses that change nothing, a DISTINCT \
that removes nothing because of a key.

A difference: other columns or another order of columns, another filter, aggregation, grouping, \
join type or limit, another treatment of NULL or of ties, rows in another order where the question \
asks for an order. Equal results on the sample rows alone are not enough. Mind the dialect.

Give your reason in a few sentences. Then end with one line that holds nothing but your verdict:
{equal_label} when they are equivalent
{not_equal_label} when they are not"""

TEMPLATE = """\
The SQL dialect:

{sql_dialect}

The schema, with sample rows:

{sql_context}

The question that both queries are to answer:

{sql_prompt}

Query A:

{first_query}

Query B:

{second_query}

Are query A and query B equivalent? Your reason, then {equal_label} or {not_equal_label} on a line \
of its own."""


class TextToSqlConfig(JudgeConfig):
    """The settings of the environment."""

    default_system: ClassVar[str] = SYSTEM
    default_template: ClassVar[str] = TEMPLATE
    places: ClassVar[tuple[str, ...]] = (FIRST, SECOND)

    execution_limit_s: float = Field(default=30.0, gt=0)
    """The seconds for running both queries. When they take longer, the model's query counts as
    wrong."""

    reward_if_swap_fails: float = 0.0
    """The reward when the judge calls the queries equal in the first order but not when swapped."""


class TextToSqlVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be verified."""

    sql: str
    """The reference query."""

    sql_context: str
    """A script that creates the database: the schema, with rows."""

    sql_dialect: str = "sqlite"
    sql_prompt: str = ""
    """The question that the query answers."""


class TextToSqlServer(AttemptsServer):
    """A resources server that verifies one query from the model's last message."""

    config: TextToSqlConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response with the row's reference query."""
        return response_of(f"```sql\n{row['sql']}\n```")

    async def verify(self, body: TextToSqlVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the query means the same as the reference query; else 0.0.

        Raises JudgeFailure: the judge fails, or gives no verdict. Raises RowError: the row's own
        query cannot be run, and no judge is configured.
        """
        query = extract_sql(body.response.final_text)
        if query is None:
            return self._failure(body, None, 0.0, NO_SQL)
        hearing = self._judge.hearing(body)
        # A row whose judge has spoken is verified again by what it said.
        if not hearing.has_recorded:
            if same_text(query, body.sql):
                return self._failure(body, query, 1.0, NONE)
            if body.sql_dialect.strip().lower() in SQLITE:
                return await self._run(body, query, hearing)
        return await self._judged(body, query, hearing)

    async def _run(
        self, body: TextToSqlVerifyRequest, query: str, hearing: Hearing
    ) -> VerifyResponse:
        verdict, why = await self._executed(body, query)
        if verdict == SAME:
            return self._failure(body, query, 1.0, NONE, execution=why)
        if verdict in {DIFFERENT, FAILED}:
            reason = EXECUTION_DIFFERS if verdict == DIFFERENT else EXECUTION_FAILED
            return self._failure(body, query, 0.0, reason, execution=why)
        if not self._judge.name:
            raise RowError(
                f"running the queries does not show whether the answer is right: {why}",
                hint="use rows whose `sql` runs on its `sql_context`, or set judge_model_server",
            )
        return await self._judged(body, query, hearing)

    async def _executed(self, body: TextToSqlVerifyRequest, query: str) -> tuple[str, str]:
        compared = await self._compared(body, query)
        if isinstance(compared, str):
            # Both queries ran there: the row's own must not be what the model's is blamed for.
            reference_alone = await self._compared(body, body.sql)
            if isinstance(reference_alone, str):
                raise RowError(
                    f"the row's own `sql` does not end within the limits: {reference_alone}",
                    hint="use a cheaper query in the row, or raise execution_limit_s",
                )
            return FAILED, compared
        return compared

    async def _compared(self, body: TextToSqlVerifyRequest, query: str) -> tuple[str, str] | str:
        """Compare the queries. Return the verdict and the reason, or one text when the call was
        stopped.
        """
        call = Call(f"{_EXECUTION}:compare", (body.sql_context, body.sql, query))
        outcome = await outcome_of(self._workers, call, self.config.execution_limit_s)
        match outcome:
            case TimedOut(limit_s):
                return f"stopped after {limit_s:g} s"
            case OutOfMemory(limit_mib):
                return f"more than {limit_mib} MiB"
            case Crashed():
                return f"SQLite ended by signal {outcome.name}"
            case Raised(kind, message):
                raise VerifierError(
                    f"comparing the queries raised {kind}: {message}",
                    hint="this is a bug of the environment, not of a query: report it with the row",
                )
        verdict, why = outcome.value
        return verdict, why

    async def _judged(
        self, body: TextToSqlVerifyRequest, query: str, hearing: Hearing
    ) -> VerifyResponse:
        details = {
            "sql_dialect": body.sql_dialect,
            "sql_context": body.sql_context,
            "sql_prompt": body.sql_prompt,
        }
        compared = FIRST, SECOND
        reference = body.sql.strip()
        ruling = await hearing.compare(
            self.config.question({**details, FIRST: reference, SECOND: query}, compared),
            self.config.question({**details, FIRST: query, SECOND: reference}, compared),
        )
        reward, reason = {
            Ruling.EQUAL: (1.0, NONE),
            Ruling.NOT_EQUAL: (0.0, JUDGED_DIFFERENT),
            Ruling.ORDER_MATTERS: (self.config.reward_if_swap_fails, ORDER_MATTERS),
        }[ruling]
        return self._failure(body, query, reward, reason, evaluations=hearing.evaluations)

    def _failure(
        self,
        body: TextToSqlVerifyRequest,
        query: str | None,
        reward: float,
        reason: str,
        *,
        evaluations: list[Any] | None = None,
        execution: str | None = None,
    ) -> VerifyResponse:
        return self.reply(
            body,
            reward,
            extracted_sql=query,
            judge_passed=bool(evaluations) and reason == NONE,
            failure_reason=reason,
            execution=execution,
            judge_evaluations=evaluations or [],
        )

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.server_client, self.config)

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=[_EXECUTION])
