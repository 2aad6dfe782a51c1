"""What an instruction is: parameters that a row gives, and whether an answer follows it.

Glossary:

- *instruction*: one demand on the form of an answer, decided by code alone.
- *kwargs*: a row's parameters for one instruction. A null is the same as nothing: sets of rows
  often carry every parameter of every instruction, null where it does not apply.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from palestra.resources_servers.instruction_following.sentences import split_sentences
from palestra.resources_servers.instruction_following.words import count_words, treebank_words

Relation = Literal["less than", "at least"]
"""How a count compares with the number that a row asks for."""

Count = Annotated[int, Field(ge=0)]
Ordinal = Annotated[int, Field(ge=1)]
Phrase = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]
"""A text to look for. The limit keeps the search quick in any answer."""


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


OneOf = Annotated[Phrase, BeforeValidator(_first)]
"""A phrase that some rows wrap in a list."""


def holds(found: int, relation: Relation, wanted: int) -> bool:
    """Whether `found` is less than, or at least, `wanted`."""
    return found < wanted if relation == "less than" else found >= wanted


@dataclass(frozen=True)
class Answer:
    """The text of an answer, and what instructions want to know about it, each found once."""

    text: str

    detect_language: Callable[[str], str | None]
    """The ISO 639-1 code of a text's language, None where it has no letters to tell by."""

    @cached_property
    def language(self) -> str | None:
        """As `detect_language` says."""
        return self.detect_language(self.text)

    @cached_property
    def number_of_sentences(self) -> int:
        """By the rules of Punkt."""
        return len(split_sentences(self.text))

    @cached_property
    def number_of_words(self) -> int:
        """Runs of word characters."""
        return count_words(self.text)

    @cached_property
    def tokens(self) -> list[str]:
        """As the Penn Treebank separates them."""
        return treebank_words(self.text)


class Instruction(BaseModel):
    """One instruction with its parameters; a subclass's docstring says what it asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def follows(self, answer: Answer) -> bool:
        """Whether an answer, which is more than white space, does as told."""
