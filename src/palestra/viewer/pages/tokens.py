"""What would be trained on: token ids, log probs and mask of each turn, and what is wrong with them."""

import math
from collections.abc import Sequence
from typing import Any, Final

from palestra.responses_api_models.vllm_model.on_policy import check_row
from palestra.schema import (
    CONTINUITY,
    CREATE_PARAMS,
    first_difference,
)
from palestra.viewer.catalog import NoSuchRun
from palestra.viewer.conversation import Transcript, decoded, row_fields
from palestra.viewer.pages.rollout import opened
from palestra.viewer.pages.token_turns import SampledTurn, carriers, outcome_notes, sampled_turns
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.differences import TokenDifference
from palestra.viewer.replies.tokens import TokenRange, TokenTurn, TokenTurns
from palestra.viewer.requests import PageRequest

RANGE_TOKENS: Final = 2_000
MOST_CHECKED_BYTES: Final = 64 << 20


def turns(request: PageRequest) -> TokenTurns:
    """Answer the turns that have token ids."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    turn_replies, ids_before = [], list[Any]()
    for number, turn in enumerate(sampled_turns(talk, request.stop)):
        turn_replies.append(_turn(number, turn, ids_before))
        ids_before = turn.tokens.all
    absent = "" if turn_replies else "this row holds no token ids; a vllm_model records them"
    return TokenTurns(
        turns=turn_replies,
        findings=[*outcome_notes(talk), *(_findings(talk) if turn_replies else ())],
        absent=absent,
        text=request.viewer.tokenizer is not None,
    )


def _turn(number: int, turn: SampledTurn, ids_before: list[Any]) -> TokenTurn:
    verdict = turn.tokens.verdict
    state, reason = _continuity(turn.fields.get(CONTINUITY))
    findings = [str(fault) for fault in (verdict.ids, verdict.log_probs) if fault is not None]
    if not turn.is_trained and not findings:
        findings = ["not trained on: its weights were too old"]
    return TokenTurn(
        turn=number,
        at=turn.position,
        prompt_ids=len(turn.tokens.prompt),
        generation_ids=len(turn.tokens.generation),
        ids_before=len(ids_before),
        break_at=first_difference(ids_before, turn.tokens.prompt),
        mean_log_prob=_mean(turn.tokens.log_probs),
        continuity=state,
        reason=reason,
        findings=findings,
        weight_version=turn.weights,
    )


def _continuity(mark: Any) -> tuple[str, str]:
    if isinstance(mark, dict):
        return str(mark.get("state") or ""), str(mark.get("reason") or "")
    return ("" if mark is None else str(mark)), ""


def _mean(log_probs: Sequence[Any]) -> float | None:
    finite = [float(p) for p in log_probs if isinstance(p, int | float) and math.isfinite(p)]
    return math.fsum(finite) / len(finite) if finite else None


def _findings(talk: Transcript) -> list[str]:
    """Return what `on_policy` says of the trajectory, whose items carry the ids."""
    row_place = talk.places[-1]
    if not carriers(talk):
        return []
    if row_place.length > MOST_CHECKED_BYTES:
        return [f"not checked: the row has {row_place.length:,} bytes"]
    fields = row_fields(row_place)
    names = {CREATE_PARAMS, "response"} & fields.keys()
    try:
        tally = check_row({name: decoded(bytes(fields[name])) for name in names})
    except ValueError as error:
        where = f"{row_place.path.name} line {row_place.line}"
        return [
            f"breaks are seen from the ids alone, as the row's marks cannot be checked: {where}: {error}"
        ]
    problems = [f"turn {problem.turn}: {problem.what}" for problem in tally.problems]
    broken = [f"marked as broken {count} times: {why}" for why, count in tally.broken.items()]
    return [*problems, *broken, *([tally.lines()[0]] if tally.rollouts else [])]


def tokens(request: PageRequest) -> TokenRange:
    """Answer a range of the tokens of a turn: the prompt, then the generation."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    turn_name = request.parts["turn"]
    for number, turn in enumerate(sampled_turns(talk, request.stop)):
        if str(number) == turn_name:
            return _range(request, number, turn)
    raise NoSuchRun(f"the rollout has no turn {turn_name[:20]} with token ids")


def _range(request: PageRequest, number: int, turn: SampledTurn) -> TokenRange:
    start = request.integer("start")
    end = start + RANGE_TOKENS
    tokens = turn.tokens
    prompt_length = len(tokens.prompt)
    ids = [_id(value) for value in tokens.all[start:end]]
    log_probs = [None] * prompt_length + [_log_prob(value) for value in tokens.log_probs]
    log_probs += [None] * (len(tokens.all) - len(log_probs))
    mask = [0] * prompt_length + [int(turn.is_trained)] * len(tokens.generation)
    tokenizer = request.viewer.tokenizer
    return TokenRange(
        turn=number,
        start=start,
        total=len(mask),
        prompt_ids=prompt_length,
        ids=ids,
        log_probs=log_probs[start:end],
        mask=mask[start:end],
        texts=[] if tokenizer is None else tokenizer.texts(ids),
    )


def _id(value: Any) -> int | None:
    return value if type(value) is int else None


def _log_prob(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def first_token_difference(a: Transcript, b: Transcript, stop: ReadStop) -> TokenDifference | None:
    """Return where the token ids of two rollouts first differ; None without ids in both."""
    pairs = zip(sampled_turns(a, stop), sampled_turns(b, stop), strict=False)
    for number, (turn_a, turn_b) in enumerate(pairs):
        tokens_a, tokens_b = turn_a.tokens, turn_b.tokens
        at = first_difference(tokens_a.all, tokens_b.all)
        if at is None and len(tokens_a.all) == len(tokens_b.all):
            continue
        at = len(tokens_a.all) if at is None else at
        return TokenDifference(
            turn=number, position=at, a=_at(tokens_a.all, at), b=_at(tokens_b.all, at)
        )
    return None


def _at(ids: Sequence[Any], position: int) -> int | None:
    return _id(ids[position]) if position < len(ids) else None
