"""Is a stored rollout on policy: does each turn's prompt start with exactly the ids before it?

Pure, and independent of the server that made the rollout: everything is recomputed from the
stored row. What is checked, turn by turn:

- every turn of the model carries all three lists, ids are ids, log probs are finite, and there
  are as many of them as generation ids;
- the prompt starts with the prompt and the generation of the turn before, unless the turn is
  marked as broken, with a reason: such a turn is counted, and is no problem of the data;
- the seal fits: neither the conversation nor the tokens were changed after the turn was made.
  Without a seal, changes that keep the ids in line with each other cannot be seen, and it is said.

python -m palestra.responses_api_models.vllm_model.on_policy ROLLOUTS.jsonl …
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from palestra.responses_api_models.vllm_model.history import items_of
from palestra.responses_api_models.vllm_model.token_ids import (
    TOKEN_FIELDS,
    State,
    TurnTokens,
    continuity_on,
    seal_items,
    tokens_on,
)
from palestra.schema import (
    FunctionCall,
    InputItem,
    Message,
    OutputItem,
    Reasoning,
    Response,
    ResponseCreateParams,
)

UNSEALED = "no seal: changes to the conversation cannot be seen"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one turn, counted from 0 in its rollout."""

    turn: int
    what: str


@dataclass(slots=True)
class Checked:
    """What was found in one rollout, or in many."""

    rollouts: int = 0
    turns: int = 0
    tokens: int = 0
    """Tokens generated."""
    continued: int = 0
    """Turns whose prompt starts with exactly the ids before it."""
    broken: Counter[str] = field(default_factory=Counter)
    """Turns marked as broken, by reason."""
    unsealed: int = 0
    problems: list[Problem] = field(default_factory=list)
    rollouts_with_problems: int = 0

    @property
    def on_policy(self) -> bool:
        """No problem, and no marked break."""
        return not self.problems and not self.broken

    def add(self, other: "Checked") -> None:
        """Take in what was found elsewhere."""
        self.rollouts += other.rollouts
        self.turns += other.turns
        self.tokens += other.tokens
        self.continued += other.continued
        self.broken += other.broken
        self.unsealed += other.unsealed
        self.problems += other.problems
        self.rollouts_with_problems += other.rollouts_with_problems

    def lines(self) -> list[str]:
        """For people."""
        marked = sum(self.broken.values())
        total = (
            f"{self.rollouts} rollouts, {self.turns} turns, {self.tokens} tokens generated: "
            f"{self.continued} later turns start with exactly the ids before them, "
            f"{marked} are marked as broken, {self.rollouts_with_problems} rollouts have problems"
        )
        said = [total]
        said += [f"  marked {count} times: {reason}" for reason, count in self.broken.most_common()]
        if self.unsealed:
            said.append(f"  {self.unsealed} turns carry {UNSEALED}")
        kinds = Counter(problem.what.partition(":")[0] for problem in self.problems)
        for kind, count in kinds.most_common():
            example = next(p for p in self.problems if p.what.startswith(kind))
            said.append(
                f"  {count} times: {kind}; the first in turn {example.turn}: {example.what}"
            )
        return said


def check_row(row: Mapping[str, Any]) -> Checked:
    """Check one stored rollout: a row with `responses_create_params` and `response`.

    Raises `ValueError` when it is none.
    """
    try:
        params = ResponseCreateParams.model_validate(row["responses_create_params"])
        response = Response.model_validate(row["response"])
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"this row is no stored rollout: {error}") from error
    return check_rollout(params, response)


def check_rollout(params: ResponseCreateParams, response: Response) -> Checked:
    """Check what a response to `params` holds, all turns of an agent's trajectory."""
    found = Checked(rollouts=1)
    given = items_of(params)
    before: TurnTokens | None = None
    for end in _turn_ends(response.output):
        turn, item = found.turns, response.output[end]
        found.turns += 1
        tokens = tokens_on(item)
        if tokens is None:
            found.problems.append(Problem(turn, f"token ids are missing: {_present(item)}"))
            before = None
            continue
        found.tokens += len(tokens.generation)
        if wrong := tokens.problem():
            found.problems.append(Problem(turn, f"token ids make no sense: {wrong}"))
        _check_continuity(found, turn, item, tokens, before)
        _check_seal(found, turn, item, tokens, [*given, *response.output[: end + 1]], params)
        before = tokens
    found.rollouts_with_problems = int(bool(found.problems))
    return found


def _check_continuity(
    found: Checked, turn: int, item: OutputItem, tokens: TurnTokens, before: TurnTokens | None
) -> None:
    if before is None:
        return
    marker = continuity_on(item)
    at = _differs_at(tokens.prompt, before)
    if at is None:
        found.continued += 1
        return
    if marker is not None and marker.state is State.BROKEN:
        found.broken[marker.reason or "without a reason"] += 1
        return
    found.problems.append(
        Problem(turn, f"the prompt does not start with the ids before it: token {at} differs")
    )


def _differs_at(prompt: Sequence[int], before: TurnTokens) -> int | None:
    """Where a prompt leaves the ids before it; None when it starts with all of them."""
    expected = before.all
    if prompt[: len(expected)] == expected:
        return None
    pairs = zip(prompt, expected, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(prompt))


def _check_seal(
    found: Checked,
    turn: int,
    item: OutputItem,
    tokens: TurnTokens,
    said: list[InputItem | OutputItem],
    params: ResponseCreateParams,
) -> None:
    marker = continuity_on(item)
    if marker is None or not marker.seal:
        found.unsealed += 1
        return
    try:
        seal = seal_items(said, tokens, instructions=params.instructions, tools=params.tools)
    except (TypeError, ValueError, OverflowError):  # lists that hold no numbers
        seal = ""
    if seal != marker.seal:
        found.problems.append(
            Problem(turn, "the seal does not fit: conversation or tokens were changed since")
        )


def _turn_ends(output: Sequence[OutputItem]) -> list[int]:
    """The index of each turn's last item: the model's own items up to what it reads next."""
    ends = []
    for index, item in enumerate(output):
        last = index + 1 == len(output) or not _models_own(output[index + 1])
        carries = all(getattr(item, name, None) is not None for name in TOKEN_FIELDS)
        if _models_own(item) and (last or carries):
            ends.append(index)
    return ends


def _models_own(item: OutputItem) -> bool:
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, FunctionCall | Reasoning)


def _present(item: OutputItem) -> str:
    there = [name for name in TOKEN_FIELDS if getattr(item, name, None) is not None]
    return f"only {', '.join(there)}" if there else "none of the three lists"


def check_files(paths: Iterable[Path]) -> Checked:
    """Check every row of rollout files, without holding them in memory."""
    found = Checked()
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                found.add(check_row(orjson.loads(line)))
    return found


def main() -> int:
    """Exit code 0 when everything is on policy."""
    found = check_files([Path(name) for name in sys.argv[1:]])
    sys.stdout.write("\n".join(found.lines()) + "\n")
    return 0 if found.on_policy else 1


if __name__ == "__main__":
    sys.exit(main())
