"""Re-verification: one row out for each row in, in order, and never an invented reward."""

import asyncio
import contextlib
import gzip
import itertools
import resource
from pathlib import Path
from typing import Any

import pytest
from stored_rollouts import (
    ENVIRONMENT,
    Answering,
    Bound,
    Folder,
    Judged,
    Replaying,
    Toy,
    Unsupporting,
    client_of,
    judged,
    read,
    stored,
    without,
    write,
)

from palestra.errors import ConfigError, CredentialsRejected, InputDataError
from palestra.rollouts import (
    FoundTaskRows,
    JournalFailed,
    Origin,
    ReverifyPaths,
    Routes,
    Sessions,
    StaleRun,
    TaskRows,
    begin_reverification,
    check_modes,
    check_places,
)
from palestra.rollouts.reverification.changes import MOST_PAIRS, RewardChanges
from palestra.rollouts.reverification.in_order import WINDOW, InOrder, RowJob
from palestra.rollouts.reverification.replay import answered_calls, replay_turns

# What comes out


def test_each_row_gets_its_new_reward_and_keeps_everything_else(tmp_path: Path) -> None:
    row = stored(3, "yes", note={"of": "the task"}, seen="something else")
    folder = Folder(tmp_path, [row])

    result = folder.reverify()

    assert folder.new == [{**row, "reward": 1.0, "previous_reward": 0.0, "seen": "yes"}]
    assert (result["rows"], result["verified"], result["failed"]) == (1, 1, {})


def test_truncated_and_empty_answers_are_counted_as_the_collection_counts_them(
    tmp_path: Path,
) -> None:
    cut = stored(0)
    cut["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    folder = Folder(tmp_path, [cut, stored(1, ""), stored(2)])

    result = folder.reverify()

    assert (result["verified"], result["truncated"], result["empty_answers"]) == (3, 1, 1)
    assert ["_ng_empty_answer" in row for row in folder.new] == [False, True, False]


def test_a_row_without_reward_or_identity_gets_null_and_no_identity(tmp_path: Path) -> None:
    row = without(stored(0), "reward", "_ng_task_index", "_ng_rollout_index", "agent_ref")
    folder = Folder(tmp_path, [row])

    folder.reverify()

    assert folder.new == [{**row, "reward": 1.0, "previous_reward": None, "seen": "yes"}]


def test_an_earlier_previous_reward_gives_way_to_the_latest(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0, "no", reward=1.0, previous_reward=0.5)])

    folder.reverify()

    assert (folder.new[0]["previous_reward"], folder.new[0]["reward"]) == (1.0, 0.0)


def test_a_row_that_cannot_be_verified_goes_to_the_failures_and_to_no_reward(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path, [stored(0), stored(1, "raise"), stored(2)])

    result = folder.reverify()

    assert [row["_ng_task_index"] for row in folder.new] == [0, 2]
    (failure,) = folder.failures
    assert (failure["line"], failure["_ng_task_index"]) == (2, 1)
    assert failure["_ng_failure_class"] == "verifier_error"
    assert "the verifier's own bug" in failure["message"]
    assert failure["hops"][0]["server"] == ENVIRONMENT
    assert "reward" not in failure
    assert result["failed"] == {"verifier_error": 1}


def test_a_verifier_that_hangs_costs_its_row_and_no_other(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0, "hang"), stored(1), stored(2)])

    result = folder.reverify(timeout_s=0.2)

    assert result["failed"] == {"timeout": 1}
    assert len(folder.new) == 2


def test_a_response_that_fits_no_schema_is_a_data_error_of_its_row(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0, response={"output": "no list"}), stored(1)])

    result = folder.reverify()

    assert result["failed"] == {"data_error": 1}
    assert "/response/output" in folder.failures[0]["message"]


def test_what_makes_every_row_fail_ends_it_and_keeps_what_is_done(tmp_path: Path) -> None:
    class Rejected(Toy):
        async def verify(self, body: Any) -> Any:
            if body["_ng_task_index"] == 2:
                raise CredentialsRejected("the judge's key")
            return {**body, "reward": 1.0}

    folder = Folder(tmp_path, [stored(n) for n in range(4)])

    with pytest.raises(CredentialsRejected):
        folder.reverify(Rejected, concurrency=1)

    assert len(read(folder.paths.partial)) == 2
    assert not folder.paths.output.exists()


# Order, and memory


def test_rows_are_written_in_their_order_whichever_is_done_first() -> None:
    written: list[tuple[int, str]] = []

    async def work(job: RowJob[int]) -> str:
        for _ in range(20 - job.source):
            await asyncio.sleep(0)
        return f"done {job.source}"

    rows = iter(range(20))
    asyncio.run(
        InOrder(rows, work, lambda row, done: written.append((row, done)), concurrency=8).run()
    )

    assert written == [(n, f"done {n}") for n in range(20)]


@pytest.mark.slow
def test_a_verifier_that_swallows_its_cancellation_holds_nothing_and_writes_nothing() -> None:
    let_go = asyncio.Event()
    written: list[int] = []

    async def work(job: RowJob[int]) -> None:
        if job.source == 1:
            raise CredentialsRejected("the judge's key")
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    async def main() -> None:
        with pytest.raises(CredentialsRejected):
            await InOrder(
                iter(range(9)), work, lambda row, _: written.append(row), concurrency=2
            ).run()
        let_go.set()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(left) == 1
        await asyncio.wait(left, timeout=30)

    asyncio.run(main())
    assert written == []


def test_no_more_rows_are_read_than_the_window_while_one_is_slow() -> None:
    slow = asyncio.Event()
    read_rows: list[int] = []
    written: list[int] = []

    def rows() -> Any:
        for number in range(100):
            read_rows.append(number)
            yield number

    async def work(job: RowJob[int]) -> None:
        if job.source == 0:
            await slow.wait()

    async def main() -> None:
        going = asyncio.create_task(
            InOrder(rows(), work, lambda row, _: written.append(row), concurrency=4).run()
        )
        for _ in range(100):
            await asyncio.sleep(0)
        assert (len(read_rows), written) == (4 * WINDOW, [])
        slow.set()
        await going

    asyncio.run(main())

    assert written == list(range(100))


# Sessions


@pytest.mark.parametrize(("cls", "seeded"), [(Toy, frozenset()), (Bound, {ENVIRONMENT})])
def test_only_a_verifier_that_takes_the_session_is_seeded(cls: Any, seeded: set[str]) -> None:
    found = asyncio.run(check_modes(client_of(cls), [ENVIRONMENT], force=True))

    assert found == Sessions(forced=frozenset(seeded))


@pytest.mark.parametrize(
    ("cls", "says"), [(Bound, "does not say"), (Unsupporting, "cannot verify stored")]
)
def test_a_verifier_that_needs_its_live_session_is_refused(cls: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^{ENVIRONMENT} {says}"):
        asyncio.run(check_modes(client_of(cls), [ENVIRONMENT], force=False))


def test_a_forced_verifier_gets_a_freshly_seeded_session(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0, "abc", secret="abc"), stored(1, "abc", secret="x")])

    folder.reverify(Bound, sessions=Sessions(forced=frozenset({ENVIRONMENT})))

    assert [row["reward"] for row in folder.new] == [1.0, 0.0]


def called(
    name: str, arguments: str, *, answered: bool = True, answer: str = "{}"
) -> list[dict[str, Any]]:
    call = {"type": "function_call", "name": name, "arguments": arguments, "call_id": arguments}
    output = {"type": "function_call_output", "call_id": arguments, "output": answer}
    return [call, output] if answered else [call]


def test_a_session_is_made_again_from_the_tool_calls_that_were_answered(tmp_path: Path) -> None:
    row = stored(0, start=5)
    row["response"]["output"] += [
        *called("add", '{"amount": 2}'),
        *called("mcp__counter__add", '{"amount": 30}'),
        *called("add", "no object"),
        *called("add", '{"amount": 400}', answered=False),
    ]
    folder = Folder(tmp_path, [row, stored(1, start=1)])
    sessions = asyncio.run(check_modes(client_of(Replaying), [ENVIRONMENT], force=False))

    folder.reverify(Replaying, sessions=sessions)

    assert [row["reward"] for row in folder.new] == [37.0, 1.0]


@pytest.mark.parametrize(
    ("name", "answer", "differs"),
    [
        ("add", "0", False),
        ("add", " 0\n", True),
        ("note", '{"of":{"b":2,"a":[1]}}', False),
        ("note", '{"of": {"a": [2], "b": 2}}', True),
        # An MCP client writes the answer in its own form.
        ("mcp__counter__add", "done", False),
    ],
)
def test_a_tool_that_answers_otherwise_than_the_model_saw_is_marked(
    tmp_path: Path, name: str, answer: str, differs: bool
) -> None:
    row = stored(0, start=5)
    row["response"]["output"] += called(name, '{"amount": 2}', answer=answer)
    folder = Folder(tmp_path, [row])
    sessions = asyncio.run(check_modes(client_of(Replaying), [ENVIRONMENT], force=False))

    result = folder.reverify(Replaying, sessions=sessions)

    assert [row.get("_ng_conversation_differs", False) for row in folder.new] == [differs]
    assert result["conversation_differs"] == differs


def test_each_turn_has_its_own_answers_where_a_model_uses_its_call_ids_again() -> None:
    turns = [
        [
            {**item, "call_id": "call_0"}
            for item in called(
                "note", f'{{"amount": {n}}}', answer=f'{{"of": {{"a": [1], "b": {n}}}}}'
            )
        ]
        for n in (1, 2)
    ]

    async def replayed() -> bool:
        peer = client_of(Replaying).peer(ENVIRONMENT)
        return await replay_turns(peer, {"output": [*turns[0], *turns[1]]})

    assert asyncio.run(replayed())


# Judges


def test_a_recorded_judge_answer_is_replayed(tmp_path: Path) -> None:
    rows = [judged(0, "4", "RIGHT"), judged(1, "5", "WRONG")]
    folder = Folder(tmp_path, rows)

    folder.reverify(Judged)

    assert [row["reward"] for row in folder.new] == [1.0, 0.0]
    assert [row["judge_evaluations"] for row in folder.new] == [
        row["judge_evaluations"] for row in rows
    ]
    assert not any("_ng_judge_replay" in row for row in folder.new)


def test_a_question_that_no_judge_answered_is_a_failure(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [judged(0, "4", None)])

    result = folder.reverify(Judged)

    assert (result["failed"], folder.new) == ({"judge_error": 1}, [])


def test_a_fresh_judge_replays_nothing_even_if_the_row_asks_for_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [{**judged(0, "4", "RIGHT"), "_ng_judge_replay": True}])

    assert folder.reverify(Judged, fresh_judge=True)["failed"] == {"judge_error": 1}


# Task rows


def answering(tmp_path: Path, tasks: list[dict[str, Any]], *rows: dict[str, Any]) -> Folder:
    folder = Folder(tmp_path, rows)
    with TaskRows(write(tmp_path / "tasks.jsonl", tasks)) as given:
        folder.reverify(Answering, tasks=given)
    return folder


def task(number: int, answer: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": f"question {number}"}, "answer": answer, **fields}


def test_task_rows_may_be_in_several_files_and_compressed(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [task(0, "yes")])
    plain = write(tmp_path / "b.jsonl", [task(1, "no"), task(2, "yes")])
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    rows = [without(stored(n), "answer") for n in (0, 1, 2)]

    with TaskRows(first, packed) as tasks:
        answers = [tasks.row_of(without(row, "_ng_task_index")) for row in rows]

    assert [row["answer"] for row in answers if isinstance(row, dict)] == ["yes", "no", "yes"]


def test_fields_that_a_rollout_lacks_come_from_its_own_task_row(tmp_path: Path) -> None:
    tasks = [
        task(0, "for rollout 0", _ng_task_index=0, _ng_rollout_index=0),
        task(0, "for rollout 1", _ng_task_index=0, _ng_rollout_index=1),
    ]
    rows = [stored(0, f"for rollout {n}", _ng_rollout_index=n) for n in (1, 0, 7)]

    folder = answering(tmp_path, tasks, *rows)

    # A rollout that the inputs do not have gets what they have of its task.
    assert [row["reward"] for row in folder.new] == [1.0, 1.0, 0.0]
    assert folder.new[2]["answer"] == "for rollout 0"


def test_a_corrected_answer_in_the_inputs_wins_over_the_stored_one(tmp_path: Path) -> None:
    folder = answering(tmp_path, [task(0, "right")], stored(0, "right", answer="wrong"))

    assert folder.new[0]["reward"] == 1.0


def test_without_indices_the_prompt_finds_the_task(tmp_path: Path) -> None:
    prompt = [{"role": "user", "type": "message", "content": "question 1", "id": None}]
    row = without(stored(1, "b"), "_ng_task_index", "_ng_rollout_index")
    row["responses_create_params"] = {"input": prompt, "tools": [], "temperature": None}

    folder = answering(tmp_path, [task(0, "a"), task(1, "b")], row)

    assert folder.new[0]["reward"] == 1.0
    assert folder.new[0]["responses_create_params"] == row["responses_create_params"]


def found(tmp_path: Path, *rows: dict[str, Any]) -> tuple[Folder, tuple[Path, ...]]:
    """What verifying again made with the files that lie in the folder."""
    folder = Folder(tmp_path, rows)
    own = tmp_path / "run_materialized_inputs.jsonl"
    with FoundTaskRows(own, [tmp_path / "example.jsonl"]) as tasks:
        folder.reverify(Answering, tasks=tasks)
        return folder, tasks.used()


def test_task_rows_that_were_found_only_add_what_a_rollout_lacks(tmp_path: Path) -> None:
    write(tmp_path / "example.jsonl", [task(0, "right"), task(1, "right")])

    folder, used = found(tmp_path, stored(0, "right"), stored(1, "right", answer="its own"))

    assert [row["reward"] for row in folder.new] == [1.0, 0.0]
    assert used == (tmp_path / "example.jsonl",)


def test_a_runs_own_inputs_are_joined_by_index_and_others_by_prompt_alone(tmp_path: Path) -> None:
    write(tmp_path / "run_materialized_inputs.jsonl", [task(9, "by index", _ng_task_index=0)])
    write(tmp_path / "example.jsonl", [task(9, "no", _ng_task_index=1), task(1, "by prompt")])

    folder, _ = found(tmp_path, stored(0, "by index"), stored(1, "by prompt"), stored(2))

    assert [row["reward"] for row in folder.new] == [1.0, 1.0]
    assert [row["line"] for row in folder.failures] == [3]


@pytest.mark.parametrize("held", ["", "no JSON\n", '{"no": "task"}\n'])
def test_a_found_file_that_is_none_of_task_rows_is_left_out(tmp_path: Path, held: str) -> None:
    (tmp_path / "example.jsonl").write_text(held)

    assert found(tmp_path, stored(0, "a", answer="a"))[0].new[0]["reward"] == 1.0


def test_instructions_that_were_given_to_the_whole_run_are_not_part_of_the_task(
    tmp_path: Path,
) -> None:
    row = stored(0, "a")
    row["responses_create_params"]["instructions"] = "Be brief."

    assert answering(tmp_path, [task(0, "a")], row).new[0]["reward"] == 1.0


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([task(5, "a")], "tasks.jsonl has no row with its prompt"),
        ([task(0, "a"), task(0, "b")], "tasks.jsonl has rows that differ with its prompt"),
        ([task(0, "a", _ng_task_index=9)], "tasks.jsonl has no row of its task"),
    ],
)
def test_a_rollout_without_one_task_row_is_named(
    tmp_path: Path, tasks: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(InputDataError, match=f"lines 1-2: {says}"):
        answering(tmp_path, tasks, stored(0), stored(0))


# Routes


def test_a_row_goes_to_its_agents_environment_else_to_the_only_one() -> None:
    routes = Routes({"a": "x", "b": "y"}, None)

    assert (routes.of("a"), routes.of("b"), routes.of("c"), routes.of(None)) == (
        "x",
        "y",
        None,
        None,
    )
    assert Routes({}, "x").of("whoever") == "x"


def test_rows_that_no_environment_takes_are_named_at_once(tmp_path: Path) -> None:
    rows = [stored(0), *(stored(n, agent_ref={"name": "agnet"}) for n in (1, 2))]
    rows.append(without(stored(3), "agent_ref"))
    folder = Folder(tmp_path, rows)

    with pytest.raises(InputDataError) as caught:
        folder.stored(Routes({"agent": "x", "other": "y"})).check()

    assert caught.value.message.splitlines()[1:] == [
        "  lines 2-3: agent 'agnet' is not in the configuration; did you mean 'agent'?",
        "  line 4: no agent_ref, and several environments are configured",
    ]


# Bad input


def test_every_row_that_is_no_rollout_is_named_before_any_is_verified(tmp_path: Path) -> None:
    rows = [stored(0), without(stored(1), "response"), [], stored(3, response={})]
    folder = Folder(tmp_path, rows)
    with folder.rollouts.open("a") as file:
        file.write("{nonsense}\n")

    with pytest.raises(InputDataError) as caught:
        folder.stored().check()

    text = caught.value.message
    assert "4 rows cannot be used" in text
    assert "line 2: no `response`" in text
    assert "line 3: not a JSON object" in text
    assert "line 4: /response/output is missing" in text
    assert "line 5: not JSON" in text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (task(0, "a"), "holds tasks, not rollouts"),
        (task(0, "a", _ng_task_index=0, _ng_rollout_index=0), "holds materialized inputs"),
        ({"_ng_failure_class": "timeout", "_ng_task_index": 0}, "holds a failures file"),
    ],
)
def test_a_file_that_never_held_responses_is_told_for_what_it_is(
    tmp_path: Path, row: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputDataError, match=says):
        Folder(tmp_path, [row, row]).stored().check()


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="has no rows"):
        Folder(tmp_path, []).stored().check()


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [])
    folder.rollouts.unlink()

    with pytest.raises(InputDataError, match="does not exist"):
        folder.stored().check()


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0), stored(1)])
    with folder.rollouts.open("a") as file:
        file.write('{"responses_cre')

    checked = folder.stored().check()

    assert (checked.rows, len(checked.notices)) == (2, 1)
    assert "torn last line (3)" in checked.notices[0]
    assert folder.reverify()["rows"] == 2


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (9, 2)])
def test_a_limit_takes_the_first_rows(tmp_path: Path, limit: int, rows: int) -> None:
    folder = Folder(tmp_path, [stored(0), stored(1)])

    assert folder.stored(limit=limit).check().rows == rows


# Files


def test_the_input_is_never_written_to(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0)])

    with pytest.raises(InputDataError, match="which is its input"):
        check_places(
            ReverifyPaths(folder.rollouts), [folder.rollouts], overwrite=True, resume=False
        )


@pytest.mark.parametrize("name", ["output", "partial", "failures", "manifest"])
def test_what_is_there_is_only_written_over_when_asked(tmp_path: Path, name: str) -> None:
    paths = ReverifyPaths(tmp_path / "new.jsonl")
    there: Path = getattr(paths, name)
    there.write_text("before\n")

    with pytest.raises(InputDataError, match=there.name):
        check_places(paths, [], overwrite=False, resume=False)
    check_places(paths, [], overwrite=True, resume=False)
    with begin_reverification(
        paths, Origin("d", 0, None, {}, "replayed"), resume=False, version="1"
    ):
        pass

    assert there.with_name(there.name + ".bak").read_text() == "before\n"


ROWS = [stored(0), stored(1, "no"), stored(2, "raise"), stored(3)]


@pytest.mark.slow
def test_cut_anywhere_it_goes_on_to_the_same_output(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Folder(tmp_path / "whole", ROWS)
    result = whole.reverify()
    journal = partial_of(whole)
    for size in {*range(0, len(journal), 37), *_around_breaks(journal), len(journal)}:
        folder = Folder(tmp_path, ROWS)
        with begin_reverification(folder.paths, origin_of(folder), resume=False, version="1"):
            pass
        folder.paths.partial.write_bytes(journal[:size])

        assert folder.reverify(resume=True) == result
        assert folder.new == whole.new
        assert folder.failures == whole.failures
        for path in folder.paths.all():
            path.unlink(missing_ok=True)


def origin_of(folder: Folder) -> Origin:
    checked = folder.stored().check()
    return Origin(checked.digest, checked.rows, None, {}, "replayed")


def partial_of(folder: Folder) -> bytes:
    """The partial output, as it was before the last step."""
    results, failures = (
        iter(path.read_bytes().splitlines(keepends=True))
        for path in (folder.paths.output, folder.paths.failures)
    )
    failed = {failure["line"] for failure in folder.failures}
    total = len(folder.new) + len(failed)
    return b"".join(
        next(failures) if line in failed else next(results) for line in range(1, total + 1)
    )


def _around_breaks(journal: bytes) -> set[int]:
    ends = itertools.accumulate(len(line) for line in journal.splitlines(keepends=True))
    return {end + by for end in ends for by in (-1, 0) if end + by <= len(journal)}


def test_a_full_disk_ends_it_with_a_beginning_that_can_be_continued(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(n, "yes", ballast="x" * 5000) for n in range(40)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(JournalFailed, match="File too large"):
            folder.reverify()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    folder.reverify(resume=True)

    assert [row["_ng_task_index"] for row in folder.new] == list(range(40))


def test_one_that_is_complete_stays_as_it_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ROWS)
    result = folder.reverify()
    before = folder.paths.output.stat().st_mtime_ns

    assert folder.reverify(resume=True) == result
    assert folder.paths.output.stat().st_mtime_ns == before


def test_a_beginning_made_by_another_verifier_is_not_continued(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ROWS)
    folder.reverify(verifiers={"code": {"toy": "old"}})

    with pytest.raises(StaleRun, match=r"verifiers\.code\.toy: 'old' -> 'new'"):
        folder.reverify(resume=True, verifiers={"code": {"toy": "new"}})
    assert not folder.paths.partial.exists()


def test_a_beginning_goes_on_after_the_verifiers_file_was_moved(tmp_path: Path) -> None:
    def verifiers(path: str) -> dict[str, Any]:
        server = {"implementation": "environment_file", "settings": {"path": path}}
        return {"servers": {"toy": server}, "code": {"toy": {"toy.py": "0f" * 32}}}

    folder = Folder(tmp_path, ROWS)
    result = folder.reverify(verifiers=verifiers("/old/toy.py"))

    assert folder.reverify(resume=True, verifiers=verifiers("/new/toy.py")) == result


def test_a_second_one_that_overwrites_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0), stored(1)])
    origin = origin_of(folder)
    with begin_reverification(folder.paths, origin, resume=False, version="1") as begun:
        begun.partial.append(b"{}")
        with (
            pytest.raises(InputDataError, match="is being written by another"),
            begin_reverification(folder.paths, origin, resume=False, version="1"),
        ):
            pass
        begun.partial.finish(origin, {}, failures=False, version="1")

    assert folder.paths.output.read_text() == "{}\n"
    assert not list(tmp_path.glob("*.bak"))


def test_a_partial_output_that_somebody_replaced_is_not_taken_for_ours(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0)])
    origin = origin_of(folder)
    with begin_reverification(folder.paths, origin, resume=False, version="1") as begun:
        folder.paths.partial.rename(tmp_path / "moved")
        folder.paths.partial.write_text("another's\n")

        with pytest.raises(JournalFailed, match="moved or replaced"):
            begun.partial.finish(origin, {}, failures=False, version="1")

    assert not folder.paths.output.exists()
    assert folder.paths.partial.read_text() == "another's\n"


def test_a_partial_output_of_other_rows_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ROWS)
    with begin_reverification(folder.paths, origin_of(folder), resume=False, version="1"):
        pass
    write(folder.paths.partial, [stored(1, "no")])

    with pytest.raises(InputDataError, match="line 1 of the partial output"):
        folder.reverify(resume=True)


# Changes


def test_changes_are_counted_by_pair_with_the_means_of_rows_that_have_both(tmp_path: Path) -> None:
    rows = [
        stored(0, "yes", reward=0.0),
        stored(1, "yes", reward=1.0),
        stored(2, "no", reward=1.0),
        stored(3, "yes", reward=None),
        stored(4, "yes", reward=0.0),
        stored(5, "raise", reward=1.0),
    ]

    result = Folder(tmp_path, rows).reverify()

    found = result["environments"][ENVIRONMENT]
    assert {k: found[k] for k in ("unchanged", "changed", "no_previous", "failed")} == {
        "unchanged": 1,
        "changed": 3,
        "no_previous": 1,
        "failed": 1,
    }
    assert (found["mean_before"], found["mean_after"]) == (0.5, 0.75)
    assert found["pairs"] == [
        {"before": 0.0, "after": 1.0, "rows": 2},
        {"before": 1.0, "after": 0.0, "rows": 1},
    ]
    assert [change["line"] for change in result["first_changed"]] == [1, 3, 5]
    assert result["first_changed"][1]["place"] == "line 3 (task 2, rollout 0)"


def test_rewards_that_differ_by_rounding_are_the_same() -> None:
    assert not RewardChanges().add(0.1 + 0.2, 0.3)


def test_pairs_of_continuous_rewards_do_not_grow_for_ever() -> None:
    found = RewardChanges()
    for number in range(MOST_PAIRS + 50):
        found.add(0.0, 1.0 + number)

    assert len(found.pairs) == MOST_PAIRS
    assert found.as_json()["other_pairs"] == found.changed - 10


# Single rollouts


def test_only_the_named_rollouts_are_verified(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0), stored(17), stored(17, _ng_rollout_index=3)])

    chosen = folder.stored(only=["17:3"])

    assert chosen.check().rows == 1
    assert [row.line for row in chosen.rows(1)] == [3]


def test_a_named_rollout_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0)])

    with pytest.raises(InputDataError, match="no rollout 17:3"):
        folder.stored(only=["0:0", "17:3"]).check()


def test_other_named_rollouts_are_other_rows(tmp_path: Path) -> None:
    folder = Folder(tmp_path, [stored(0), stored(1)])

    digests = [folder.stored(only=[name]).check().digest for name in ("0:0", "1:0")]

    assert digests[0] != digests[1]


def test_calls_with_one_id_have_each_their_own_answer() -> None:
    call = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "0"}
    answers = [{"type": "function_call_output", "call_id": "0", "output": o} for o in ("a", "b")]

    found = answered_calls([call, answers[0], call, answers[1]])

    assert [made.output for made in found] == ["a", "b"]
