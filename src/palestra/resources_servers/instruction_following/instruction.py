"""The base class of instructions: parameters from a row, and a check of an answer.

Glossary:

- *instruction*: one rule about the form of an answer, checked by code alone.
- *kwargs*: a row's parameters for one instruction. A null counts as absent: data sets often list
  every parameter of every instruction, with null where it does not apply.
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
"""How a count is compared with the number in a row."""

Count = Annotated[int, Field(ge=0)]
Ordinal = Annotated[int, Field(ge=1)]
Phrase = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]
"""A text to search for. The length limit keeps the search fast."""


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


OneOf = Annotated[Phrase, BeforeValidator(_first)]
"""A phrase, which some rows wrap in a list of one."""


def holds(count: int, relation: Relation, threshold: int) -> bool:
    """Whether `count` is less than `threshold`, or at least `threshold`, depending on `relation`."""
    return count < threshold if relation == "less than" else count >= threshold


@dataclass(frozen=True)
class Answer:
    """The text of an answer, with properties that instructions share, each computed once."""

    text: str

    detect_language: Callable[[str], str | None]
    """Returns the ISO 639-1 code of a text's language; None when the text has no letters."""

    @cached_property
    def language(self) -> str | None:
        """The language of the answer, from `detect_language`."""
        return self.detect_language(self.text)

    @cached_property
    def number_of_sentences(self) -> int:
        """The number of sentences by the rules of Punkt."""
        return len(split_sentences(self.text))

    @cached_property
    def number_of_words(self) -> int:
        """The number of words: runs of word characters."""
        return count_words(self.text)

    @cached_property
    def tokens(self) -> list[str]:
        """The words of the answer, split as in the Penn Treebank."""
        return treebank_words(self.text)


class Instruction(BaseModel):
    """One instruction with its parameters. The docstring of a subclass states the rule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def follows(self, answer: Answer) -> bool:
        """Whether the answer follows the instruction. The answer is never empty or only white
        space.
        """
