"""What would be trained on: token ids, log probs and mask of each turn, and what is wrong with them."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from palestra.responses_api_models.vllm_model.on_policy import check_row
from palestra.schema import (
    CONTINUITY,
    CREATE_PARAMS,
    TurnTokens,
    first_difference,
    tokens_on,
)
from palestra.viewer.catalog import NoSuchRun
from palestra.viewer.conversation import Transcript, decoded, row_fields
from palestra.viewer.pages.rollout import opened
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.differences import TokenDifference
from palestra.viewer.replies.tokens import TokenRange, TokenTurn, TokenTurns
from palestra.viewer.requests import PageRequest

RANGE_TOKENS: Final = 2_000
MOST_CHECKED_BYTES: Final = 64 << 20
_WEIGHTS: Final = ("weight_version", "weights", "policy_version")


def turns(request: PageRequest) -> TokenTurns:
    """Answer the turns that have token ids."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    turn_replies = [
        _turn(number, position, tokens, item)
        for number, (position, tokens, item) in enumerate(_token_turns(talk, request.stop))
    ]
    absent = (
        "" if turn_replies else "the rows hold no token ids: train with a vllm_model to record them"
    )
    return TokenTurns(
        turns=turn_replies,
        findings=_findings(talk) if turn_replies else [],
        absent=absent,
        text=request.viewer.tokenizer is not None,
    )


def _token_turns(talk: Transcript, stop: ReadStop) -> Iterator[tuple[int, TurnTokens, Any]]:
    for item in talk.items:
        if not item.has_tokens or item.section != "output":
            continue
        stop.check()
        value = talk.read(item)
        tokens = tokens_on(value)
        if tokens is not None:
            yield item.position, tokens, value


def _turn(number: int, position: int, tokens: TurnTokens, item: Any) -> TokenTurn:
    verdict = tokens.verdict
    mark = item.get(CONTINUITY)
    state, reason = _continuity(mark)
    return TokenTurn(
        turn=number,
        at=position,
        prompt_ids=len(tokens.prompt),
        generation_ids=len(tokens.generation),
        mean_log_prob=_mean(tokens.log_probs),
        continuity=state,
        reason=reason,
        findings=[str(fault) for fault in (verdict.ids, verdict.log_probs) if fault is not None],
        weight_version=next((str(item[name]) for name in _WEIGHTS if name in item), ""),
    )


def _continuity(mark: Any) -> tuple[str, str]:
    if isinstance(mark, dict):
        return str(mark.get("state") or ""), str(mark.get("reason") or "")
    return ("" if mark is None else str(mark)), ""


def _mean(log_probs: Sequence[Any]) -> float | None:
    finite = [float(p) for p in log_probs if isinstance(p, int | float) and math.isfinite(p)]
    return math.fsum(finite) / len(finite) if finite else None


def _findings(talk: Transcript) -> list[str]:
    """Return what `on_policy` says of the trajectory."""
    row_place = talk.places[-1]
    if row_place.length > MOST_CHECKED_BYTES:
        return [f"not checked: the row has {row_place.length:,} bytes"]
    fields = row_fields(row_place)
    names = {CREATE_PARAMS, "response"} & fields.keys()
    try:
        tally = check_row({name: decoded(bytes(fields[name])) for name in names})
    except ValueError as error:
        return [f"not checked: {row_place.path.name} line {row_place.line}: {error}"]
    problems = [f"turn {problem.turn}: {problem.what}" for problem in tally.problems]
    broken = [f"marked as broken {count} times: {why}" for why, count in tally.broken.items()]
    return [*problems, *broken, *([tally.lines()[0]] if tally.rollouts else [])]


def tokens(request: PageRequest) -> TokenRange:
    """Answer a range of the tokens of a turn: the prompt, then the generation."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    turn_name = request.parts["turn"]
    for number, (_, turn, _) in enumerate(_token_turns(talk, request.stop)):
        if str(number) == turn_name:
            return _range(request, number, turn)
    raise NoSuchRun(f"the rollout has no turn {turn_name[:20]} with token ids")


def _range(request: PageRequest, number: int, turn: TurnTokens) -> TokenRange:
    start = request.integer("start")
    end = start + RANGE_TOKENS
    prompt_length = len(turn.prompt)
    ids = [_id(value) for value in turn.all[start:end]]
    log_probs = [None] * prompt_length + [_log_prob(value) for value in turn.log_probs]
    mask = [0] * prompt_length + [1] * len(turn.generation)
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
    pairs = zip(_token_turns(a, stop), _token_turns(b, stop), strict=False)
    for number, ((_, tokens_a, _), (_, tokens_b, _)) in enumerate(pairs):
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
