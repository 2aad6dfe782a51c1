"""What an endpoint can do, as far as it is known: each thing is known, or why it is not yet.

`palestra.responses_api_models.vllm_model.probing` asks; `known` keeps the answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from palestra.errors import InfraError, WrongSetting


class TokenIds(StrEnum):
    """How ids of prompt and generation can be had. The values are shown."""

    NOT_ASKED = "not asked for"
    NONE = "none"
    WITH_ANSWER = "with each answer"
    BY_TOKENIZE = "generated with each answer, the prompt's by /tokenize"


class Question(StrEnum):
    """What an endpoint is asked. The values are shown."""

    SERVER = "its product and version"
    MODELS = "what it serves"
    TOOL_PARSER = "its tool parser"
    TOKENIZE = "whether /tokenize renders chats"
    TOKEN_IDS = "whether it returns token ids"  # noqa: S105
    IDS_IN = "whether it takes token ids"


FOR_ALL = frozenset({Question.SERVER, Question.MODELS, Question.TOOL_PARSER, Question.TOKENIZE})
"""Asked of every endpoint, and generates nothing."""
FOR_TOKEN_IDS = frozenset({Question.TOKENIZE, Question.TOKEN_IDS, Question.IDS_IN})
"""What turns with token ids depend on."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why something is not known yet."""

    why: str = "it was not asked yet"
    passing: bool = True
    """It may be known in a moment, and is worth waiting for: a server that is busy, or down."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One endpoint, as it showed itself. What is still `unanswered` has its default here."""

    base_url: str
    server: str = ""
    """Product and version, where it says so: `vLLM 0.32.0`."""
    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    """Prompt and answer together, in tokens."""
    tool_parser: str = ""
    """Where the endpoint tells it; vLLM does so in its development mode alone."""
    token_ids: TokenIds = TokenIds.NOT_ASKED
    no_token_ids: str = ""
    """What it did when it was asked for them, if there are none."""
    tokenize: bool = False
    """`/tokenize` renders and tokenizes a chat."""
    ids_in: bool = False
    """Token ids can be sent: the chat is rendered and generated in separate requests."""
    closing_token: int | None = None
    """The id that closes a turn of the model."""
    unanswered: Mapping[Question, Unanswered] = field(default_factory=dict)

    @classmethod
    def unasked(cls, base_url: str) -> "Capabilities":
        """An endpoint of which nothing is known."""
        return cls(base_url, unanswered=dict.fromkeys(Question, Unanswered()))

    @property
    def splices(self) -> bool:
        """Later prompts can be put together here of the ids before and of what was added."""
        return self.ids_in and self.tokenize

    def missing(self, *, later: bool) -> Question | None:
        """What a turn depends on and is not known yet. `later`: it continues another one.

        A first turn needs nothing in advance: its answer shows whether there are ids.
        """
        if not later:
            return None
        if Question.IDS_IN in self.unanswered:
            return Question.IDS_IN
        return Question.TOKENIZE if self.ids_in and Question.TOKENIZE in self.unanswered else None

    def line(self) -> str:
        """For people, in a line."""
        facts = [self.server or "an unknown server"]
        if self.max_model_len is not None:
            facts.append(f"{self.max_model_len} tokens of context")
        if self.tool_parser:
            facts.append(f"tool parser {self.tool_parser}")
        if Question.TOKENIZE not in self.unanswered:
            facts.append(f"/tokenize {'of chats' if self.tokenize else 'of chats missing'}")
        if self.token_ids is not TokenIds.NOT_ASKED:
            facts.append(f"token ids: {self.token_ids.value}")
        if self.token_ids is not TokenIds.NOT_ASKED and self.missing(later=True) is None:
            prompts = "sent as ids" if self.splices else "sent as text (re-tokenization is marked)"
            facts.append(f"later prompts: {prompts}")
        return ", ".join(facts)

    def unknown_line(self, questions: frozenset[Question]) -> str:
        """For people: what of `questions` is not known, and why; empty when all is."""
        by_reason: dict[str, list[str]] = {}
        for question in Question:
            if question in questions and question in self.unanswered:
                by_reason.setdefault(self.unanswered[question].why, []).append(question.value)
        return "; ".join(f"{', '.join(what)}: {why}" for why, what in by_reason.items())

    def require_token_ids(self, server: str) -> None:
        """Raises `WrongSetting` when token ids are wanted and cannot be had."""
        if self.token_ids is TokenIds.NONE:
            raise WrongSetting(
                f"{server}: return_token_id_information is true, and {self.base_url} "
                f"({self.server or 'an unknown server'}) returns no token ids: {self.no_token_ids}",
                hint="serve the model with vLLM (`palestra serve-model vllm …`), or set "
                "return_token_id_information: false",
            )

    def not_known(self, server: str, question: Question) -> InfraError:
        """The failure of whatever depends on something that is not known yet."""
        why = self.unanswered[question].why
        return InfraError(
            f"{server}: of {self.base_url} it is not known yet {question.value}: {why}",
            hint="return_token_id_information: true needs to know it; the endpoint is asked again",
        )
