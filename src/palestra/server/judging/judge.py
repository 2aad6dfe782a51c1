"""`Judge`: asks a model server of the fleet, with a limited number of questions at once.

An environment makes one `Judge`, and one `Hearing` for each verify request:

    hearing = self._judge.hearing(body)
    ruling = await hearing.compare(question, swapped)
    return self.reply(body, reward_of(ruling), judge_evaluations=hearing.evaluations)

The row then contains the questions and replies. They are replayed when the row is verified again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Self, final

from pydantic import Field, PrivateAttr, model_validator

from palestra.config import PACKAGE_ROOT, resolve_path
from palestra.errors import CallError, JudgeFailure, KnownCause, add_question, excerpt
from palestra.schema import (
    CONTEXT_FULL,
    JsonObject,
    JudgeExchange,
    JudgeReplay,
    Response,
    ResponseCreateParams,
    WireModel,
    question_text,
    to_plain,
)
from palestra.server.agent import ServerReference
from palestra.server.judging.questions import (
    EQUAL,
    NOT_EQUAL,
    JudgeLabels,
    JudgeQuestion,
    check_template,
    read_verdict,
)
from palestra.server.resources_server import ResourcesServerConfig
from palestra.settings import ASK_A_JUDGE, JUDGE_OPTION
from palestra.transport import ServerClient, note_answered, note_unanswered

_CUT_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max_output_tokens": "raise max_output_tokens in judge_responses_create_params",
        CONTEXT_FULL: "serve the judge with a longer context: the question does not fit",
    }
)
"""What to do about a reply that was cut off, by the reason for the cut."""


ReadLabel = Callable[[Response, Iterable[str]], str | None]
"""Finds one of the labels in a reply; None: the reply has none of them."""


class JudgeConfig(ResourcesServerConfig):
    """The settings of an environment that asks a judge. A subclass defines the question."""

    default_system: ClassVar[str] = ""
    default_template: ClassVar[str] = ""
    places: ClassVar[tuple[str, ...]] = ()
    """The placeholders that a template must have, such as `{question}`."""

    judge_model_server: ServerReference | None = None
    """The model server that serves the judge; None: there is no judge."""

    judge_responses_create_params: ResponseCreateParams = Field(
        default_factory=lambda: ResponseCreateParams(input=[])
    )
    """The judge's request parameters (temperature, max_output_tokens, …); their `input` is not
    used."""

    judge_endpoint_max_concurrency: int | None = Field(default=64, ge=1)
    """The largest number of questions at once from one process; None: no limit."""

    judge_system_message: str | None = None
    """The system message before the question; None: the environment's default."""

    judge_prompt_template: str | None = None
    """The question, with the environment's placeholders; None: the environment's default."""

    judge_prompt_template_fpath: str | None = None
    """A file with the template, instead of `judge_prompt_template`. A relative path is searched in
    the working directory, then in the package."""

    judge_equal_label: str = EQUAL
    """The exact label with which the judge says that both answers are equal."""

    judge_not_equal_label: str = NOT_EQUAL
    """The exact label with which the judge says that the answers are not equal."""

    check_twice_swap: bool = True
    """After an "equal", ask again with the answers in the other order."""

    _template: str = PrivateAttr(default="")

    @property
    def labels(self) -> JudgeLabels:
        """The labels for "equal" and "not equal"."""
        return JudgeLabels(self.judge_equal_label, self.judge_not_equal_label)

    def question(
        self,
        passages: Mapping[str, str],
        compared: tuple[str, str],
        *,
        cuts: Mapping[str, Sequence[str]] | None = None,
    ) -> JudgeQuestion:
        """Return the question about these passages; see `JudgeQuestion` for the parameters."""
        own_system = self.judge_system_message
        system = self.default_system if own_system is None else own_system
        return JudgeQuestion(
            _labelled(system, self.labels), self._template, passages, compared, cuts or {}
        )

    @model_validator(mode="after")
    def _can_be_asked_and_understood(self) -> Self:
        if problem := self.labels.problem():
            raise ValueError(problem)
        self._template = _labelled(self._given_template(), self.labels)
        check_template(self._template, self.places)
        return self

    def _given_template(self) -> str:
        path, text = self.judge_prompt_template_fpath, self.judge_prompt_template
        if path is None:
            return self.default_template if text is None else text
        if text is not None:
            raise ValueError("judge_prompt_template and judge_prompt_template_fpath are both given")
        template = resolve_path(path, Path.cwd(), PACKAGE_ROOT)
        try:
            return template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{template}: {error}") from None


def _labelled(text: str, labels: JudgeLabels) -> str:
    return text.replace("{equal_label}", labels.equal).replace(
        "{not_equal_label}", labels.not_equal
    )


class Ruling(StrEnum):
    """The result of comparing two answers."""

    EQUAL = "equal"
    """The answers are equal, in every order that was asked."""
    NOT_EQUAL = "not_equal"
    """The answers are not equal in the first order. The other order was not asked."""
    ORDER_MATTERS = "order_matters"
    """The answers are equal in the first order but not in the other: the judge is not sure."""


@final
class Judge:
    """The judge of one environment. Make one per server: it limits the number of questions at once."""

    def __init__(self, client: ServerClient, config: JudgeConfig) -> None:
        self._client = client
        self._config = config
        at_once = config.judge_endpoint_max_concurrency
        self._places = None if at_once is None else asyncio.Semaphore(at_once)

    @property
    def name(self) -> str:
        """The instance name of the judge's model server; empty without one."""
        reference = self._config.judge_model_server
        return "" if reference is None else reference.name

    @property
    def labels(self) -> JudgeLabels:
        """The labels that the judge may answer with."""
        return self._config.labels

    @property
    def params(self) -> ResponseCreateParams:
        """The request parameters for the judge."""
        return self._config.judge_responses_create_params

    def hearing(self, body: WireModel) -> "Hearing":
        """Return a `Hearing` for one verify request, with the recorded replies of the request, if
        any.
        """
        return Hearing(self, JudgeReplay.of(body), swaps=self._config.check_twice_swap)

    async def answer(self, params: ResponseCreateParams) -> Response:
        """Ask the judge and return its response.

        Raises JudgeFailure: no judge is configured. Raises the call's own error: the call failed.
        """
        if not self.name:
            raise JudgeFailure(
                "no judge model is configured",
                hint="set judge_model_server in the environment's config",
                cause=KnownCause.NO_JUDGE,
            )
        if not self.present():
            raise JudgeFailure(
                f"there is no judge to ask: no model instance is named {self.name!r}",
                hint=f"name the judge's model: `palestra eval {JUDGE_OPTION}`",
                cause=KnownCause.NO_JUDGE,
            )
        peer = self._client.peer(self.name)
        if self._places is None:
            return await peer.call("/v1/responses", params, Response)
        async with self._places:
            return await peer.call("/v1/responses", params, Response)

    def present(self) -> bool:
        """Whether the judge's model server belongs to this fleet."""
        return self.name in self._client.targets


@final
class Hearing:
    """The questions of one verify request, with every question and reply so far."""

    def __init__(self, judge: Judge, replay: JudgeReplay, *, swaps: bool) -> None:
        self._judge = judge
        self._replay = replay
        self._swaps = swaps
        self._replayed_last = False
        self.evaluations: list[JsonObject] = []
        """For the row's `judge_evaluations`, from which `reverify` replays them: each has
        `responses_create_params`, `response` and `verdict_label`."""

    @property
    def has_recorded(self) -> bool:
        """Whether the request has recorded replies that have not been used yet."""
        return self._replay.left > 0

    async def compare(self, question: JudgeQuestion, swapped: JudgeQuestion) -> Ruling:
        """Ask the judge whether both answers are equal. After an "equal", ask again in the other
        order.

        Raises JudgeFailure: the judge failed, or its verdict cannot be read.
        """
        equal = self._judge.labels.equal
        if await self.ask(question) != equal:
            return Ruling.NOT_EQUAL
        if not self._swaps or self._asked_in_one_order_only:
            return Ruling.EQUAL
        return Ruling.EQUAL if await self.ask(swapped) == equal else Ruling.ORDER_MATTERS

    @property
    def _asked_in_one_order_only(self) -> bool:
        # Recorded without the second question: the verdict then stands on the first.
        return self._replayed_last and not self.has_recorded

    async def ask(
        self,
        question: JudgeQuestion,
        *,
        labels: Iterable[str] | None = None,
        read_label: ReadLabel | None = None,
    ) -> str:
        """Ask the question and return the judge's label. Raises JudgeFailure when the reply has no
        label. An error of the call and of the reply carries the question.

        `labels`: the labels of this question, which `read_label` finds in the reply; None: those for
        "equal" and "not equal".
        """
        allowed = tuple(self._judge.labels if labels is None else labels)
        params = question.asked(self._judge.params)
        try:
            label = await self._label(question, params, allowed, read_label)
        except CallError as error:
            add_question(error, question_text(params))
            note_unanswered(params, error)
            raise
        note_answered(params)
        return label

    async def _label(
        self,
        question: JudgeQuestion,
        params: ResponseCreateParams,
        allowed: Sequence[str],
        read_label: ReadLabel | None,
    ) -> str:
        recorded = self._replay.exchange(params, quoting=question.quoted())
        self._replayed_last = recorded is not None
        if recorded is not None:
            answer, evaluation = recorded.answer, recorded.held
        else:
            answer = await self._ask_anew(params)
            evaluation = {"responses_create_params": to_plain(params), "response": to_plain(answer)}
        label = (
            self._verdict(answer, recorded) if read_label is None else read_label(answer, allowed)
        )
        self.evaluations.append({**evaluation, "verdict_label": label})
        if label is None:
            raise _unreadable(answer, allowed)
        return label

    def _verdict(self, answer: Response, recorded: JudgeExchange | None) -> str | None:
        labels = self._judge.labels
        if recorded is not None and recorded.in_other_words:
            # Another prompt asked for another form; who recorded the answer has read it.
            recorded_label = recorded.held.get("verdict_label")
            if recorded_label in tuple(labels):
                return str(recorded_label)
        return read_verdict(answer, labels)

    async def _ask_anew(self, params: ResponseCreateParams) -> Response:
        if self._replay.replays and not self._judge.present():
            raise JudgeFailure(
                "the row has no stored answer of the judge to this question",
                hint=ASK_A_JUDGE,
            )
        return await self._judge.answer(params)


def _unreadable(answer: Response, labels: Sequence[str]) -> JudgeFailure:
    allowed = " nor ".join(labels)
    if answer.incomplete_details is not None:
        reason = answer.incomplete_details.true_reason
        return JudgeFailure(
            f"the judge's reply was cut off ({reason or 'no reason given'}), so it has no verdict",
            hint=_CUT_HINTS.get(reason, ""),
            cause=KnownCause.JUDGE_CUT_OFF,
        )
    end = excerpt(answer.final_text[-200:]) or "nothing"
    return JudgeFailure(
        f"the last line of the judge's reply gives neither {allowed}: {end}",
        cause=KnownCause.JUDGE_UNREADABLE,
    )
