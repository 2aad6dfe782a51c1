"""Check whether a stored rollout is on policy: each turn's prompt starts with exactly the token ids
before it.

The check is independent of the server that made the rollout: it computes everything from the stored
row. It checks for each turn:

- Every model turn has all three lists, the token ids are valid, the log probs are finite, and
  there are as many log probs as generation ids. A turn that was never made, because the context
  was full, has no lists: it counts as truncated, not as a problem.
- The prompt starts with the prompt and the generation of the turn before, in the rollout or in
  the row's input. A turn that is marked as broken, with a reason, is counted, but is not a
  problem of the data.
- The seal fits: neither the conversation nor the tokens were changed after the turn. The seal is
  a digest without a key. It shows accidents and careless edits; anyone who forges a row can
  compute a new seal. Without a seal, changes that keep the ids consistent cannot be seen, and
  the turn does not count as on policy.

python -m palestra.responses_api_models.vllm_model.on_policy [--allow-unsealed] ROLLOUTS.jsonl …
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from palestra.errors import InputDataError
from palestra.responses_api_models.vllm_model.history import items_of
from palestra.responses_api_models.vllm_model.token_ids import (
    State,
    continuity_on,
    last_with_tokens,
    seal_items,
)
from palestra.schema import (
    TOKEN_FIELDS,
    InputItem,
    JsonObject,
    OutputItem,
    Response,
    ResponseCreateParams,
    TurnTokens,
    first_difference,
    never_made,
    rejected_fields,
    rejection_text,
    tokens_on,
    turn_ends,
)

Model = TypeVar("Model", bound=BaseModel)
UNSEALED = "no seal: changes to the conversation cannot be seen"


@dataclass(frozen=True, slots=True)
class TurnProblem:
    """One problem of a turn. `turn`: the turn's number in its rollout, from 0."""

    turn: int
    what: str


@dataclass(slots=True)
class OnPolicyTally:
    """The counts and problems found in one rollout or in many."""

    rollouts: int = 0
    turns: int = 0
    tokens: int = 0
    """The number of generated tokens."""
    continued: int = 0
    """The number of turns whose prompt starts with exactly the token ids before it."""
    broken: Counter[str] = field(default_factory=Counter)
    """The number of turns marked as broken, by reason."""
    truncated: int = 0
    """The number of turns that were never made, because the context was full."""
    unsealed: int = 0
    problems: list[TurnProblem] = field(default_factory=list)
    rollouts_with_problems: int = 0

    @property
    def on_policy(self) -> bool:
        """Whether at least one rollout was checked, all turns are sealed, and there is no problem
        and no broken turn.
        """
        return self.on_policy_but_for_seals and not self.unsealed

    @property
    def on_policy_but_for_seals(self) -> bool:
        """Whether the rollouts are on policy (see `on_policy`) when turns need no seal."""
        return bool(self.rollouts) and not self.problems and not self.broken

    def add(self, added: "OnPolicyTally") -> None:
        """Add the counts and problems of another tally."""
        self.rollouts += added.rollouts
        self.turns += added.turns
        self.tokens += added.tokens
        self.continued += added.continued
        self.broken += added.broken
        self.truncated += added.truncated
        self.unsealed += added.unsealed
        self.problems += added.problems
        self.rollouts_with_problems += added.rollouts_with_problems

    def lines(self) -> list[str]:
        """Return the counts and problems as lines of text for people."""
        marked = sum(self.broken.values())
        total = (
            f"{self.rollouts} rollouts, {self.turns} turns, {self.tokens} tokens generated: "
            f"{self.continued} later turns start with exactly the ids before them, "
            f"{marked} are marked as broken, {self.truncated} were never made as the context was "
            f"full, {self.unsealed} carry no seal, {self.rollouts_with_problems} rollouts have "
            "problems"
        )
        report_lines = [total]
        report_lines += [
            f"  marked {count} times: {reason}" for reason, count in self.broken.most_common()
        ]
        if self.unsealed:
            report_lines.append(f"  {self.unsealed} times {UNSEALED}")
        kinds = Counter(problem.what.partition(":")[0] for problem in self.problems)
        for kind, count in kinds.most_common():
            example = next(p for p in self.problems if p.what.startswith(kind))
            report_lines.append(
                f"  {count} times: {kind}; the first in turn {example.turn}: {example.what}"
            )
        return report_lines


def check_row(row: JsonObject) -> OnPolicyTally:
    """Check one stored rollout: a row with `responses_create_params` and `response`.

    Raises `ValueError`: the row is not a stored rollout.
    """
    params = _parsed(ResponseCreateParams, row, "responses_create_params")
    return check_rollout(params, _parsed(Response, row, "response"))


def _parsed(model: type[Model], row: JsonObject, name: str) -> Model:
    if not isinstance(row, dict) or name not in row:
        raise ValueError(f"this row is not a stored rollout: it has no {name}")
    try:
        return model.model_validate(row[name])
    except ValidationError as error:
        fields = rejected_fields(row[name], error)
        named_fields = [field._replace(pointer=f"/{name}{field.pointer}") for field in fields]
        text = rejection_text(named_fields)
        raise ValueError(f"this row is not a stored rollout: {text}") from error


def check_rollout(params: ResponseCreateParams, response: Response) -> OnPolicyTally:
    """Check all model turns in a response to `params`."""
    tally = OnPolicyTally(rollouts=1)
    prompt_items = items_of(params)
    last = last_with_tokens(prompt_items)
    before = None if last is None else tokens_on(prompt_items[last])
    ends = turn_ends(response.output)
    if not ends:
        tally.problems.append(TurnProblem(0, "the rollout has no turn of the model"))
    for end in ends:
        item = response.output[end]
        if end + 1 == len(response.output) and never_made(item, response):
            tally.truncated += 1
            continue
        conversation = [*prompt_items, *response.output[: end + 1]]
        before = _check_turn(tally, item, before, conversation, params)
    tally.rollouts_with_problems = int(bool(tally.problems))
    return tally


def _check_turn(
    tally: OnPolicyTally,
    item: OutputItem,
    before: TurnTokens | None,
    conversation: list[InputItem | OutputItem],
    params: ResponseCreateParams,
) -> TurnTokens | None:
    """Check the turn that ends with `item`. Returns its tokens, with which the next prompt must
    start.
    """
    turn = tally.turns
    tally.turns += 1
    tokens = tokens_on(item)
    if tokens is None:
        tally.problems.append(TurnProblem(turn, f"token ids are missing: {_present(item)}"))
        return None
    tally.tokens += len(tokens.generation)
    if wrong := tokens.lacks() or tokens.fault_of_ids() or tokens.fault_of_log_probs():
        tally.problems.append(TurnProblem(turn, f"token ids make no sense: {wrong}"))
    _check_continuity(tally, turn, item, tokens, before)
    _check_seal(tally, turn, item, tokens, conversation, params)
    return tokens


def _check_continuity(
    tally: OnPolicyTally, turn: int, item: OutputItem, tokens: TurnTokens, before: TurnTokens | None
) -> None:
    marker = continuity_on(item)
    at = None if before is None else first_difference(before.all, tokens.prompt)
    if before is not None and at is None:
        tally.continued += 1
        return
    if marker is not None and marker.state is State.BROKEN:
        tally.broken[marker.reason or "without a reason"] += 1
        return
    if before is None:
        if turn == 0 and marker is not None and marker.state is State.CONTINUED:
            what = "there is no earlier turn, but this turn is marked as continued"
            tally.problems.append(TurnProblem(turn, what))
        return
    tally.problems.append(
        TurnProblem(turn, f"the prompt does not start with the ids before it: token {at} differs")
    )


def _check_seal(
    tally: OnPolicyTally,
    turn: int,
    item: OutputItem,
    tokens: TurnTokens,
    conversation: list[InputItem | OutputItem],
    params: ResponseCreateParams,
) -> None:
    marker = continuity_on(item)
    if marker is None or not marker.seal:
        tally.unsealed += 1
        return
    try:
        seal = seal_items(
            conversation, tokens, instructions=params.instructions, tools=params.tools
        )
    except (TypeError, ValueError, OverflowError):  # lists that hold no numbers
        seal = ""
    if seal != marker.seal:
        tally.problems.append(
            TurnProblem(turn, "the seal does not fit: conversation or tokens were changed since")
        )


def _present(item: OutputItem) -> str:
    fields_there = [name for name in TOKEN_FIELDS if getattr(item, name, None) is not None]
    return f"only {', '.join(fields_there)}" if fields_there else "none of the three lists"


def check_files(paths: Iterable[Path]) -> OnPolicyTally:
    """Check every row of rollout files, without loading whole files into memory.

    Raises `InputDataError`: a file cannot be read, or a line is not a stored rollout.
    """
    tally = OnPolicyTally()
    for path in paths:
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    tally.add(_check_line(line, f"{path}:{number}"))
        except OSError as error:
            raise InputDataError(f"{path} cannot be read: {error.strerror}") from error
    return tally


def _check_line(line: bytes, where: str) -> OnPolicyTally:
    try:
        return check_row(orjson.loads(line))
    except ValueError as error:
        raise InputDataError(f"{where}: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0: all is on policy. 1: something is not. 2: a file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m palestra.responses_api_models.vllm_model.on_policy",
        description="Check that stored rollouts are on policy: exit code 0 when all are.",
    )
    parser.add_argument("rollouts", nargs="+", type=Path, help="files of rollouts, a row a line")
    parser.add_argument(
        "--allow-unsealed",
        action="store_true",
        help="for rollouts made elsewhere: turns without a seal do not count as a failure",
    )
    options = parser.parse_args(arguments)
    try:
        tally = check_files(options.rollouts)
    except InputDataError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write("\n".join(tally.lines()) + "\n")
    passed = tally.on_policy_but_for_seals if options.allow_unsealed else tally.on_policy
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
