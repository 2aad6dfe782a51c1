"""`McqaServer`: multiple choice, graded on the letter that the model chose.

How the letter is read is the row's `grading_mode`; a row whose `template_metadata` has an
`output_regex` is read with that instead. The grammars are in `grammars.py`.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.mcqa.grammars import (
    LONGEST_PATTERN,
    Options,
    choice,
    lenient_answer_colon,
    lenient_boxed,
    search,
    strict_single_letter_boxed,
)
from palestra.sandbox import Workers, open_workers
from palestra.schema import (
    JsonDict,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    response_of,
)
from palestra.server import ResourcesServerConfig

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon"]

GRAMMARS: Mapping[str, Callable[[str, Options], str | None]] = {
    "strict_single_letter_boxed": strict_single_letter_boxed,
    "lenient_boxed": lenient_boxed,
    "lenient_answer_colon": lenient_answer_colon,
}


WRITTEN: Mapping[str, str] = {
    "strict_single_letter_boxed": "\\boxed{?}",
    "lenient_boxed": "\\boxed{?}",
    "lenient_answer_colon": "Answer: ?",
    "choice": "<choice>?</choice>",
    "answer": "<answer>?</answer>",
    "alone": "?",
}
"""How an answer is written for each grammar, and for usual patterns of rows; `?` is the letter."""


class TemplateMetadata(WireModel):
    """What the prompt's template says about the answer it asked for."""

    output_regex: str | None = Field(default=None, max_length=LONGEST_PATTERN)
    """A regular expression; its first group, else its whole match, is the answer."""

    @field_validator("output_regex")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                with warnings.catch_warnings(action="ignore"):
                    re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"no regular expression: {error}") from None
        return pattern


class McqaVerifyRequest(VerifyRequest):
    """What a row must say for its answer to be graded."""

    expected_answer: str
    """The letter of the right option."""

    options: list[JsonDict] | None = None
    """One mapping of letter to text per option; without it any letter may be chosen."""

    grading_mode: GradingMode = "strict_single_letter_boxed"
    template_metadata: TemplateMetadata | None = None

    @model_validator(mode="after")
    def _expected_is_an_option(self) -> "McqaVerifyRequest":
        letters = self.by_letter()
        if letters and self.right_letter not in letters:
            known = ", ".join(letters)
            raise ValueError(f"expected_answer {self.expected_answer!r} is none of {known}")
        return self

    @property
    def right_letter(self) -> str:
        """`expected_answer`, as letters are compared."""
        return self.expected_answer.strip().upper()

    def by_letter(self) -> Options:
        """The options by letter."""
        return {
            letter.strip().upper(): str(text)
            for option in self.options or ()
            for letter, text in option.items()
        }


class McqaServer(AttemptsServer):
    """Grades the text of the last message."""

    has_majority: ClassVar[bool] = True

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """The right letter, in the form that the row's grading reads; None if that is not known."""
        pattern = (row.get("template_metadata") or {}).get("output_regex")
        mode = row.get("grading_mode", "strict_single_letter_boxed")
        forms = WRITTEN.values() if pattern else (WRITTEN[mode],)
        texts = [form.replace("?", row["expected_answer"]) for form in forms]
        read = [text for text in texts if pattern is None or re.search(pattern, text)]
        return response_of(read[0]) if read else None

    async def verify(self, body: McqaVerifyRequest) -> VerifyResponse:
        """1.0 when the chosen letter is `expected_answer`; else 0.0."""
        chosen = await self._chosen(body)
        return self.reply(body, float(chosen == body.right_letter), extracted_answer=chosen)

    async def _chosen(self, body: McqaVerifyRequest) -> str | None:
        text = body.response.final_text
        pattern = body.template_metadata.output_regex if body.template_metadata else None
        if pattern is None:
            return GRAMMARS[body.grading_mode](text, body.by_letter())
        prompt = body.responses_create_params.last_message
        found = await search(self._workers, pattern, text, prompt=prompt)
        return None if found is None else choice(found, body.by_letter())

    async def stop(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=["palestra.resources_servers.mcqa.grammars"])
