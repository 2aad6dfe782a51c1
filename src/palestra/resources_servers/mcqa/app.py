"""`McqaServer`: multiple choice, graded by the letter that the model chose.

The row's `grading_mode` selects the grammar that finds the letter. A row with an `output_regex` in
its `template_metadata` uses that expression instead. The grammars are in `grammars.py`.
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
"""The answer format of each grammar, and of usual patterns in rows; `?` stands for the letter."""


class TemplateMetadata(WireModel):
    """The answer format that the prompt's template asks for."""

    output_regex: str | None = Field(default=None, max_length=LONGEST_PATTERN)
    """A regular expression. Its first group is the answer; without a group, its whole match."""

    @field_validator("output_regex")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                with warnings.catch_warnings(action="ignore"):
                    re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"not a valid regular expression: {error}") from None
        return pattern


class McqaVerifyRequest(VerifyRequest):
    """The fields that a row needs for its answer to be graded."""

    expected_answer: str
    """The letter of the right option."""

    options: list[JsonDict] | None = None
    """The options, each a mapping of letter to text. Without options, any letter may be chosen."""

    grading_mode: GradingMode = "strict_single_letter_boxed"
    template_metadata: TemplateMetadata | None = None

    @model_validator(mode="after")
    def _expected_is_an_option(self) -> "McqaVerifyRequest":
        letters = self.by_letter()
        if letters and self.right_letter not in letters:
            listed = ", ".join(letters)
            raise ValueError(f"expected_answer {self.expected_answer!r} is not one of {listed}")
        return self

    @property
    def right_letter(self) -> str:
        """The right letter, in upper case and without blanks."""
        return self.expected_answer.strip().upper()

    def by_letter(self) -> Options:
        """Return the options by letter."""
        return {
            letter.strip().upper(): str(text)
            for option in self.options or ()
            for letter, text in option.items()
        }


class McqaServer(AttemptsServer):
    """A resources server that grades the text of the last message."""

    has_majority: ClassVar[bool] = True

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the right letter in the format that the row's grading reads; None if that is
        unknown.
        """
        pattern = (row.get("template_metadata") or {}).get("output_regex")
        mode = row.get("grading_mode", "strict_single_letter_boxed")
        forms = WRITTEN.values() if pattern else (WRITTEN[mode],)
        texts = [form.replace("?", row["expected_answer"]) for form in forms]
        matching = [text for text in texts if pattern is None or re.search(pattern, text)]
        return response_of(matching[0]) if matching else None

    async def verify(self, body: McqaVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the chosen letter is `expected_answer`; else 0.0."""
        chosen = await self._chosen(body)
        return self.reply(body, float(chosen == body.right_letter), extracted_answer=chosen)

    async def _chosen(self, body: McqaVerifyRequest) -> str | None:
        text = body.response.final_text
        pattern = body.template_metadata.output_regex if body.template_metadata else None
        if pattern is None:
            return GRAMMARS[body.grading_mode](text, body.by_letter())
        prompt = body.responses_create_params.last_message
        match = await search(self._workers, pattern, text, prompt=prompt)
        return None if match is None else choice(match, body.by_letter())

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=["palestra.resources_servers.mcqa.grammars"])
