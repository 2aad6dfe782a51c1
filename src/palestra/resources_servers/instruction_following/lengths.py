"""Instructions about the length of an answer: sentences, words, paragraphs."""

import re
from typing import Final, Self

from pydantic import model_validator

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    Ordinal,
    Phrase,
    Relation,
    holds,
)
from palestra.resources_servers.instruction_following.sentences import plain_sentences
from palestra.resources_servers.instruction_following.words import treebank_words

_DIVIDER: Final = re.compile(r"\s?\*\*\*\s?")
_ENDS_WORD: Final = re.compile(r"""[.,?!'"]""")


class NumberOfSentences(Instruction):
    """The answer has less than, or at least, `num_sentences` sentences."""

    num_sentences: Count
    relation: Relation

    def follows(self, answer: Answer) -> bool:
        return holds(answer.number_of_sentences, self.relation, self.num_sentences)


class NumberOfWords(Instruction):
    """The answer has less than, or at least, `num_words` words."""

    num_words: Count
    relation: Relation

    def follows(self, answer: Answer) -> bool:
        return holds(answer.number_of_words, self.relation, self.num_words)


class NumberOfParagraphs(Instruction):
    """The answer has exactly `num_paragraphs` non-empty paragraphs, divided by three asterisks."""

    num_paragraphs: Count

    def follows(self, answer: Answer) -> bool:
        return _count_filled(_DIVIDER.split(answer.text)) == self.num_paragraphs


class TwoDividedParagraphs(Instruction):
    """The answer has exactly two paragraphs, divided by three asterisks."""

    def follows(self, answer: Answer) -> bool:
        return _count_filled(_DIVIDER.split(answer.text)) == len("ab")


class TwoParagraphs(Instruction):
    """The answer has exactly two paragraphs, divided by two line breaks."""

    def follows(self, answer: Answer) -> bool:
        return _count_filled(answer.text.split("\n\n")) == len("ab")


class ParagraphsFirstWord(Instruction):
    """The answer has exactly `num_paragraphs` paragraphs, divided by two line breaks, and paragraph
    `nth_paragraph` starts with a given word.
    """

    num_paragraphs: Ordinal
    nth_paragraph: Ordinal
    first_word: Phrase

    @model_validator(mode="after")
    def _there_is_such_a_paragraph(self) -> Self:
        if self.nth_paragraph > self.num_paragraphs:
            raise ValueError(
                f"nth_paragraph {self.nth_paragraph} is beyond num_paragraphs {self.num_paragraphs}"
            )
        return self

    def follows(self, answer: Answer) -> bool:
        paragraphs = answer.text.split("\n\n")
        filled = sum(1 for paragraph in paragraphs if paragraph.strip())
        if self.nth_paragraph > filled:
            return False
        # The n-th of all: an empty paragraph before it shifts it.
        words = paragraphs[self.nth_paragraph - 1].split(maxsplit=1)
        if not words:
            return False
        first = _ENDS_WORD.split(words[0].lstrip("'").lstrip('"'), maxsplit=1)[0]
        return filled == self.num_paragraphs and first.lower() == self.first_word.lower()


class Composition(Instruction):
    """The answer has three paragraphs, divided by three asterisks. Each has `n_sent` sentences of
    `n_words` words.

    Punctuation marks count as words.
    """

    n_sent: Ordinal
    n_words: Ordinal

    def follows(self, answer: Answer) -> bool:
        paragraphs = _DIVIDER.split(answer.text)
        return len(paragraphs) == len("abc") and all(map(self._is_composed, paragraphs))

    def _is_composed(self, paragraph: str) -> bool:
        sentences = plain_sentences(paragraph)
        return len(sentences) == self.n_sent and all(
            len(treebank_words(sentence)) == self.n_words for sentence in sentences
        )


def _count_filled(parts: list[str]) -> int | None:
    """Count the parts with text; None when an inner part is empty. The first and last may be empty."""
    if not all(part.strip() for part in parts[1:-1]):
        return None
    edges = (parts[0], parts[-1]) if len(parts) > 1 else parts
    return len(parts[1:-1]) + sum(1 for part in edges if part.strip())
