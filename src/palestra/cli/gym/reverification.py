"""`gym eval reverify`: verify stored responses again on servers of this command."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from pydantic import model_validator

from palestra.cli.console import notice, say, say_json
from palestra.cli.gym.grammar import Invocation
from palestra.cli.merging import ask_agents
from palestra.cli.reverifying import reverify_rows
from palestra.config import ResolvedConfig, ServerType, domain_problems, raise_problems
from palestra.errors import ConfigError, InputDataError, Outcome, PalestraError
from palestra.rollouts import (
    UnverifiedAnswers,
    copy_inputs,
    failures_beside,
    holds_failures,
    scored_beside,
    unsafe,
)
from palestra.schema import JsonObject, RunPaths
from palestra.settings import ReverifyArgs, Settings, args_from, load
from palestra.system import replacing, set_aside, shown

JUDGE_FAILED: Final = frozenset({"judge_failed", str(Outcome.JUDGE_ERROR)})
"""The failure classes of rollouts whose judge failed: the field's, and Palestra's."""


class GymReverifyArgs(Settings):
    """The settings of `gym eval reverify`."""

    rollouts_jsonl_fpath: Path
    materialized_inputs_jsonl_fpath: Path | None = None
    output_jsonl_fpath: Path | None = None
    num_samples_in_parallel: int = 64
    limit: int | None = None
    force: bool = False
    overwrite: bool = False
    resume_from_cache: bool = False
    disable_aggregation: bool = False
    judge_failed_only: bool = False
    append: bool = False
    with_failures: bool = False
    judge: str | None = None
    fresh_judge: bool = False

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.append and not self.judge_failed_only:
            raise ValueError("append (--append) needs judge_failed_only (--judge-failed-only)")
        if self.append and self.output_jsonl_fpath is not None:
            raise ValueError(
                "append (--append) adds to the scored rows, so there is no output_jsonl_fpath"
            )
        if not self.append and self.output_jsonl_fpath is None:
            raise ValueError("output_jsonl_fpath (--output) is required")
        if self.with_failures and self.judge_failed_only:
            raise ValueError(
                "with_failures (--with-failures) and judge_failed_only (--judge-failed-only) "
                "contradict each other"
            )
        if self.judge_failed_only and self.resume_from_cache:
            raise ValueError(
                "resume_from_cache (--resume) does nothing with judge_failed_only: run the command "
                "again instead; rollouts that have a reward by then are not judged again"
            )
        return self

    def reverify_args(self, rollouts: Path, output: Path) -> ReverifyArgs:
        """Return the arguments of `palestra reverify` for these rollouts and this output."""
        return ReverifyArgs(
            rollouts=rollouts,
            output=output,
            inputs=self.materialized_inputs_jsonl_fpath,
            limit=self.limit,
            concurrency=self.num_samples_in_parallel,
            force=self.force,
            overwrite=self.overwrite,
            resume=self.resume_from_cache,
            with_failures=self.with_failures,
            judge=self.judge,
            fresh_judge=self.fresh_judge,
            # The servers of NeMo Gym store no answers of judges, and ask them each time.
            starts_judges=True,
        )


def reverify(invocation: Invocation, overrides: list[str]) -> int:
    """Verify stored rows again; exit code 1 when some rows could not be verified."""
    config = load(overrides, ng=True, require_all=False, required=())
    raise_problems(domain_problems(config))
    args = args_from(GymReverifyArgs, config.tree)
    if args.judge_failed_only:
        code, output, document = _judge_again(args, overrides)
    else:
        output = _output(args)
        if args.force:
            output = unsafe(output)
        run_args = args.reverify_args(args.rollouts_jsonl_fpath, output)
        code, reverified = reverify_rows(run_args, overrides)
        document = reverified.to_dict() if reverified else None
    if not args.disable_aggregation and output.is_file():
        _aggregate(config, output, overrides)
    if invocation.json and document is not None:
        say_json(document)
    return code


def _output(args: GymReverifyArgs) -> Path:
    return args.output_jsonl_fpath or args.rollouts_jsonl_fpath


def _judge_again(
    args: GymReverifyArgs, overrides: list[str]
) -> tuple[int, Path, JsonObject | None]:
    """Verify the rollouts whose judge failed, each once.

    Return the exit code, the output, and the document for `--json`: None when a signal stopped the
    command. The output has the scored rows of the run, then the new ones.
    """
    scored, failures = _files_of_run(args.rollouts_jsonl_fpath)
    output = scored if args.append else _output(args)
    if output.exists() and not args.append:
        if not args.overwrite:
            raise ConfigError(
                f"{shown(output)} exists already", hint="--overwrite moves it to .bak"
            )
        set_aside([output], ".bak")
    output.parent.mkdir(parents=True, exist_ok=True)
    code = 0
    document: JsonObject | None = {}
    with tempfile.TemporaryDirectory(prefix=".judging-", dir=output.parent) as aside:
        judged = Path(aside) / output.name
        answers = UnverifiedAnswers.found_in(failures, scored=scored, failure_classes=JUDGE_FAILED)
        if len(answers):
            run_args = args.reverify_args(failures, judged).model_copy(
                update={
                    "failure_classes": JUDGE_FAILED,
                    "scored": scored,
                    "inputs": args.materialized_inputs_jsonl_fpath or _inputs_of(scored),
                    "force": True,
                    "overwrite": False,
                }
            )
            code, reverified = reverify_rows(run_args, overrides)
            document = reverified.to_dict() if reverified else None
        else:
            notice(f"{shown(failures)}: no rollout whose judge failed has an answer to verify")
        added = _join(scored, judged, output)
    if output != scored:
        copy_inputs([[RunPaths(scored).materialized_inputs]], RunPaths(output).materialized_inputs)
    say(f"{added} rows added -> {shown(output)}")
    if document is None:
        return code, output, None
    return code, output, {**document, "output": str(output), "added": added}


def _files_of_run(rollouts: Path) -> tuple[Path, Path]:
    """Return the scored rows and the failures file of a run, of which the user named either.

    Raises InputDataError: the run has no failures file.
    """
    scored = scored_beside(rollouts) if holds_failures(rollouts) else rollouts
    failures = rollouts if holds_failures(rollouts) else failures_beside(rollouts)
    if scored is None or not failures.is_file():
        raise InputDataError(
            f"{shown(failures)} does not exist, so no rollout is known whose judge failed"
        )
    return scored, failures


def _inputs_of(scored: Path) -> Path | None:
    inputs = RunPaths(scored).materialized_inputs
    return inputs if inputs.is_file() else None


def _join(scored: Path, judged: Path, output: Path) -> int:
    """Write the scored rows and the newly judged ones to `output`; return the number of new rows."""
    added = 0
    with replacing(output) as file:
        if scored.is_file():
            with scored.open("rb") as rows:
                shutil.copyfileobj(rows, file)
        with suppress(FileNotFoundError), judged.open("rb") as rows:
            for row in rows:
                file.write(row)
                added += 1
    return added


def _aggregate(config: ResolvedConfig, output: Path, overrides: list[str]) -> None:
    """Get the metrics of the rewards from the agents of the configuration, where it has agents.

    A problem is printed: the rewards themselves are written.
    """
    if not config.instances_of(ServerType.AGENT):
        return
    metrics = RunPaths(output).aggregate_metrics
    try:
        ask_agents(load(overrides, ng=True), output, metrics, own_fleet=True)
    except PalestraError as error:
        notice(f"no aggregate metrics: {error.message}")
        return
    say(f"  {shown(metrics)}")
