"""Model checks: does each endpoint respond, does it serve the model, do the prompts fit?

Each endpoint is first queried for its facts, as `collect` does, and then for a few tokens: some
endpoints accept any model name and API key until a generation request.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from palestra.causes import Severity
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, quote
from palestra.doctor.forecast import BYTES_PER_TOKEN, RequestPace
from palestra.doctor.patience import asked_once
from palestra.doctor.survey import AgentRows
from palestra.doctor.tabled import tabled
from palestra.errors import (
    CallError,
    ModelNotServed,
    PromptTooLong,
    RowIdentity,
)
from palestra.schema import CREATE_PARAMS, TASK_INDEX, JsonObject, Response, ResponseCreateParams
from palestra.server import EndpointFacts, EndpointSaid, ask_endpoint
from palestra.transport import ServerClient

ENDPOINT_S: Final = 20.0
"""Deadline for querying an endpoint's facts, in seconds."""
WORD_S: Final = 12.0
"""Deadline for a few tokens from an idle endpoint, in seconds."""
REQUEST_S: Final = 30.0
"""Deadline for `PROBE_TOKENS` tokens in response to a row's own prompt, which may be long, in
seconds."""
PROBE_TOKENS: Final = 16
"""The lowest output limit that OpenAI's endpoint accepts."""
TEMPLATE_TOKENS: Final = 512
"""Tokens that a chat template may add around a conversation and its tools."""
PROBE: Final = "Say a word."


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """The facts found out about the endpoint of one model server."""

    name: str
    facts: EndpointFacts
    pace: RequestPace | None
    looked: Looked

    @property
    def answers(self) -> bool:
        """Whether the endpoint generates tokens."""
        return self.pace is not None


async def check_endpoint(client: ServerClient, name: str) -> ModelEndpoint:
    """Query an endpoint for its facts, then request a few tokens."""
    try:
        endpoint_answer = await ask_endpoint(client, name, within_s=ENDPOINT_S)
    except CallError as error:
        return ModelEndpoint(name, EndpointFacts(), None, Looked("no", (_unusable(name, error),)))
    if not endpoint_answer.facts.model:
        return ModelEndpoint(name, endpoint_answer.facts, None, Looked(endpoint_answer.text))
    try:
        pace = await _ask_for_a_word(client, name)
    except CallError as error:
        finding = _with_listed(_unusable(name, error), endpoint_answer)
        return ModelEndpoint(
            name, endpoint_answer.facts, None, Looked(endpoint_answer.text, (finding,))
        )
    summary = f"{endpoint_answer.text}; {pace.seconds:.2f} s for {pace.output_tokens} tokens"
    return ModelEndpoint(name, endpoint_answer.facts, pace, Looked(summary))


def _unusable(name: str, error: CallError) -> Finding:
    """Return the finding for an unusable endpoint. A timeout counts as no answer, not as a slow
    model.
    """
    finding = finding_of(error)
    if finding.cause in _SLOW:
        return tabled("model.no-answer", f"{name}: {finding.symptom}", *finding.evidence)
    if finding.cause == "infra.unreachable":
        finding = tabled("model.unreachable", finding.symptom, *finding.evidence, row=finding.row)
    if name in finding.symptom:
        return finding
    return replace(finding, symptom=f"{name}: {finding.symptom}")


_SLOW: Final = frozenset({"throughput.no-answer", "throughput.model-slow"})
"""Causes that are reported as no answer, because a deadline on the check's request can trigger
them."""


def _with_listed(finding: Finding, endpoint_answer: EndpointSaid) -> Finding:
    """Add the endpoint's list of models to a finding; it may contain the right name."""
    listed = (quote("GET /models", endpoint_answer.text),)
    evidence = (*finding.evidence, *listed)
    served = endpoint_answer.facts.served
    if finding.cause != "model.not-served" or not served or endpoint_answer.facts.model in served:
        return replace(finding, evidence=evidence)
    unlisted = tabled("model.not-listed", finding.symptom, listed=", ".join(served))
    return replace(finding, evidence=evidence, next_action=unlisted.next_action)


async def _ask_for_a_word(client: ServerClient, name: str) -> RequestPace:
    params = {"input": PROBE, "max_output_tokens": PROBE_TOKENS}
    began = time.monotonic()
    response = await _ask(client, name, params, within_s=WORD_S)
    return RequestPace(time.monotonic() - began, max(_used(response)[1], 1))


async def _ask(
    client: ServerClient, name: str, params: JsonObject, *, within_s: float = REQUEST_S
) -> Response:
    params_asked = ResponseCreateParams.model_validate(params)
    return await asked_once(
        lambda: client.peer(name).call("/v1/responses", params_asked, Response), within_s=within_s
    )


def _used(response: Response) -> tuple[int, int]:
    """Return the numbers of input and output tokens; zeros when the response has no usage."""
    if response.usage is None:
        return 0, 0
    return response.usage.input_tokens, response.usage.output_tokens


async def check_context(
    client: ServerClient, endpoint: ModelEndpoint, rows: AgentRows
) -> tuple[Looked, RequestPace | None]:
    """Check whether the agent's longest prompt and its response fit into the context.

    Also returns the endpoint's pace with the measured bytes per token. A token has at least one
    byte, so a prompt that surely fits is not sent.
    """
    limit = endpoint.facts.max_model_len
    answer = rows.most_output or PROBE_TOKENS
    summary = f"longest prompt {rows.longest_prompt:,} bytes"
    if limit is not None and rows.longest_prompt + answer + TEMPLATE_TOKENS <= limit:
        return Looked(f"{summary}, {limit:,} tokens of context"), endpoint.pace
    params = {**rows.longest[CREATE_PARAMS], "max_output_tokens": PROBE_TOKENS}
    try:
        response = await _ask(client, endpoint.name, params)
    except PromptTooLong as error:
        return Looked(summary, (_too_long(endpoint, rows, error.message),)), endpoint.pace
    except CallError as error:
        return Looked(summary, (_with_row(finding_of(error), rows.longest),)), endpoint.pace
    used, _ = _used(response)
    ratio = rows.longest_prompt / used if used else BYTES_PER_TOKEN
    pace = None if endpoint.pace is None else replace(endpoint.pace, bytes_per_token=ratio)
    summary = f"{summary}, {used:,} tokens" + (f" of {limit:,}" if limit else "")
    long = [p for p in rows.prompts if limit and p.bytes / ratio + (p.most_output or 0) > limit]
    if not long:
        return Looked(summary), pace
    return Looked(summary, (_answer_too_long(endpoint, rows, [p.task for p in long]),)), pace


def _too_long(endpoint: ModelEndpoint, rows: AgentRows, setting: str) -> Finding:
    return tabled(
        "data.prompt-too-long",
        f"the longest prompt of {rows.agent} does not fit into the context of {endpoint.name}",
        quote(endpoint.name, setting),
        row=_identity(rows.longest),
        severity=Severity.ERROR,
    )


def _answer_too_long(endpoint: ModelEndpoint, rows: AgentRows, tasks: Sequence[int]) -> Finding:
    limit = endpoint.facts.max_model_len or 0
    tasks_text = ", ".join(str(task) for task in tasks[:10]) + (", …" if len(tasks) > 10 else "")
    return tabled(
        "model.answer-too-long",
        f"{len(tasks)} prompts of {rows.agent} do not fit into {limit:,} tokens of context "
        "together with their max_output_tokens",
        quote("tasks", tasks_text),
        row=RowIdentity(task=tasks[0], agent=rows.agent),
    )


async def check_tool_calls(
    client: ServerClient, endpoint: ModelEndpoint, rows: AgentRows
) -> Looked:
    """Check whether the endpoint accepts a row's tools. Sends no request when no row has tools."""
    if rows.with_tools is None:
        return Looked("no row has tools", skipped=True)
    params = {**rows.with_tools[CREATE_PARAMS], "max_output_tokens": PROBE_TOKENS}
    params["input"] = PROBE
    parser = endpoint.facts.tool_parser
    try:
        await _ask(client, endpoint.name, params)
    except CallError as error:
        if isinstance(error, ModelNotServed):
            return Looked("not asked: the model is not served", skipped=True)
        return Looked("refused", (_with_row(finding_of(error), rows.with_tools),))
    return Looked("taken" + (f", tool parser {parser}" if parser else ""))


def _with_row(finding: Finding, row: JsonObject) -> Finding:
    return replace(finding, row=finding.row or _identity(row))


def _identity(row: JsonObject) -> RowIdentity:
    return RowIdentity(task=row.get(TASK_INDEX), rollout=None)


def check_served(endpoint: ModelEndpoint) -> tuple[Finding, ...]:
    """Return a warning when the endpoint generates but its model list lacks the configured model."""
    facts = endpoint.facts
    if not facts.served or facts.model in facts.served or not endpoint.answers:
        return ()
    return (
        tabled(
            "model.not-listed",
            f"{endpoint.name} asks for {facts.model!r}, which the endpoint does not list",
            quote("GET /models", ", ".join(facts.served)),
            listed=", ".join(facts.served),
        ),
    )
