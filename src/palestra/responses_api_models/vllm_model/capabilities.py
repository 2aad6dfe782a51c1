"""The capabilities of an endpoint. Each is either known, or has a reason why it is not known yet.

`palestra.responses_api_models.vllm_model.probing` asks the endpoint; `known` stores the answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from palestra.errors import InfraError, WrongSetting


class TokenIds(StrEnum):
    """How an endpoint provides the token ids of prompt and generation. The values are shown to
    users.
    """

    NOT_ASKED = "not asked for"
    NONE = "none"
    WITH_ANSWER = "with each answer"
    BY_TOKENIZE = "generated with each answer, the prompt's by /tokenize"


class Question(StrEnum):
    """The questions that Palestra asks an endpoint. The values are shown to users."""

    SERVER = "its product and version"
    MODELS = "what it serves"
    TOOL_PARSER = "its tool parser"
    TOKENIZE = "whether /tokenize renders chats"
    TOKEN_IDS = "whether it returns token ids"  # noqa: S105
    IDS_IN = "whether it takes token ids"


FOR_ALL = frozenset({Question.SERVER, Question.MODELS, Question.TOOL_PARSER, Question.TOKENIZE})
"""The questions for every endpoint. They make the model generate nothing."""
FOR_TOKEN_IDS = frozenset({Question.TOKENIZE, Question.TOKEN_IDS, Question.IDS_IN})
"""The questions that turns with token ids depend on."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The reason why a question has no answer yet."""

    why: str = "it was not asked yet"
    passing: bool = True
    """Whether the answer may come soon, so that waiting makes sense: the server is busy or down."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one endpoint has shown that it can do. A field whose question is in `unanswered` has its
    default.
    """

    base_url: str
    server: str = ""
    """The product and version, if the endpoint returns them, such as `vLLM 0.32.0`."""
    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    """The maximum number of tokens of prompt and answer together."""
    tool_parser: str = ""
    """The tool parser, if the endpoint returns it; vLLM does so in its development mode only."""
    token_ids: TokenIds = TokenIds.NOT_ASKED
    no_token_ids: str = ""
    """What the endpoint did when token ids were requested, if it returns none."""
    tokenize: bool = False
    """Whether `/tokenize` renders and tokenizes a chat."""
    ids_in: bool = False
    """Whether the endpoint accepts token ids: it renders a chat and generates from ids in separate
    requests."""
    closing_token: int | None = None
    """The id of the token that closes a model turn."""
    unanswered: Mapping[Question, Unanswered] = field(default_factory=dict)

    @classmethod
    def unasked(cls, base_url: str) -> "Capabilities":
        """Return the capabilities of an endpoint that was not asked anything yet."""
        return cls(base_url, unanswered=dict.fromkeys(Question, Unanswered()))

    @property
    def splices(self) -> bool:
        """Whether a later prompt can be built from the earlier token ids and the ids of the new
        messages.
        """
        return self.ids_in and self.tokenize

    def missing(self, *, later: bool) -> Question | None:
        """Return a question that a turn depends on and that has no answer yet, or None.

        `later`: the turn continues another turn. A first turn needs nothing in advance: its answer
        shows whether there are token ids.
        """
        if not later:
            return None
        if Question.IDS_IN in self.unanswered:
            return Question.IDS_IN
        return Question.TOKENIZE if self.ids_in and Question.TOKENIZE in self.unanswered else None

    def line(self) -> str:
        """Return a one-line summary for people: server, context length, tool parser, token ids.

        What is missing is only named when token ids are wanted; the line may be empty without them.
        """
        wants_ids = self.token_ids is not TokenIds.NOT_ASKED
        facts = [self.server or "an unknown server"] if self.server or wants_ids else []
        if self.max_model_len is not None:
            facts.append(f"{self.max_model_len} tokens of context")
        if self.tool_parser:
            facts.append(f"tool parser {self.tool_parser}")
        if wants_ids and Question.TOKENIZE not in self.unanswered:
            facts.append(f"/tokenize {'of chats' if self.tokenize else 'of chats missing'}")
        if wants_ids:
            facts.append(f"token ids: {self.token_ids.value}")
        if wants_ids and self.missing(later=True) is None:
            prompts = "sent as ids" if self.splices else "sent as text (re-tokenization is marked)"
            facts.append(f"later prompts: {prompts}")
        return ", ".join(facts)

    def unknown_line(self, questions: frozenset[Question]) -> str:
        """Return a text for people with the unanswered ones of `questions` and the reasons; empty
        if none.
        """
        by_reason: dict[str, list[str]] = {}
        for question in Question:
            if question in questions and question in self.unanswered:
                by_reason.setdefault(self.unanswered[question].why, []).append(question.value)
        return "; ".join(f"{', '.join(what)}: {why}" for why, what in by_reason.items())

    def require_token_ids(self, server: str) -> None:
        """Raise `WrongSetting` when the endpoint returns no token ids."""
        if self.token_ids is TokenIds.NONE:
            raise WrongSetting(
                f"{server}: return_token_id_information is true, and {self.base_url} "
                f"({self.server or 'an unknown server'}) returns no token ids: {self.no_token_ids}",
                hint="serve the model with vLLM (`palestra serve-model vllm …`), or set "
                "return_token_id_information: false",
            )

    def not_known(self, server: str, question: Question) -> InfraError:
        """Return the error for a turn that depends on an unanswered question."""
        why = self.unanswered[question].why
        return InfraError(
            f"{server}: it is not known yet {question.value} ({self.base_url}): {why}",
            hint="return_token_id_information: true needs this information; the next request "
            "checks the endpoint again",
        )
