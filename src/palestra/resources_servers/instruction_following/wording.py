"""Instructions about text that an answer repeats, and about its first and last words."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    OneOf,
    Ordinal,
    Phrase,
)
from palestra.resources_servers.instruction_following.sentences import plain_sentences

Prompt = Annotated[str, Field(pattern=r"\S")]

SEPARATOR: Final = "******"
_MARKS: Final = re.compile(r"[^\w\s]")


class TwoResponses(Instruction):
    """The answer has two different parts, divided by six asterisks."""

    def follows(self, answer: Answer) -> bool:
        parts = [part.strip() for part in answer.text.split(SEPARATOR)]
        if not all(parts[1:-1]):
            return False
        responses = [part for part in parts if part]
        return len(responses) == len("ab") and responses[0] != responses[1]


class RepeatPrompt(Instruction):
    """The answer starts with the prompt, ignoring case."""

    prompt_to_repeat: Prompt

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text).startswith(_plain(self.prompt_to_repeat))


class CopyPrompt(Instruction):
    """The answer equals the prompt, ignoring case."""

    prompt_to_repeat: Prompt

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text) == _plain(self.prompt_to_repeat)


class CopySeveral(Instruction):
    """The answer repeats the prompt `N` times, divided by six asterisks."""

    prompt_to_repeat: Prompt
    N: Ordinal

    def follows(self, answer: Answer) -> bool:
        copies = answer.text.split(SEPARATOR)
        expected = _plain(self.prompt_to_repeat)
        return len(copies) == self.N and all(_plain(copy) == expected for copy in copies)


class CopySpan(Instruction):
    """The answer equals the prompt's characters from `n_start` up to, but not including, `n_end`,
    counted from 0.
    """

    prompt_to_repeat: Prompt
    n_start: Count
    n_end: Ordinal

    @model_validator(mode="after")
    def _there_is_a_span(self) -> Self:
        if not self._span():
            raise ValueError(f"the prompt has no words from {self.n_start} to {self.n_end}")
        return self

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text) == self._span()

    def _span(self) -> str:
        return _plain(self.prompt_to_repeat[self.n_start : self.n_end])


class RepeatPhrase(Instruction):
    """A phrase occurs `small_n` times. Each time at most one word is replaced; the last time
    exactly one.
    """

    phrase: Annotated[Phrase, Field(pattern=r"\S\s+\S")]
    small_n: Ordinal

    def follows(self, answer: Answer) -> bool:
        words = self.phrase.split()
        copies = [copy.split() for copy in _passages(answer.text, words[0], words[-1])]
        if len(copies) != self.small_n or any(len(copy) != len(words) for copy in copies):
            return False
        changes = [sum(a != b for a, b in zip(copy, words, strict=True)) for copy in copies]
        return max(changes) <= 1 and changes[-1] == 1


class EndPhrase(Instruction):
    """The answer ends with a phrase, ignoring case; quotation marks may follow."""

    end_phrase: Phrase

    def follows(self, answer: Answer) -> bool:
        return answer.text.strip().strip('"').lower().endswith(_plain(self.end_phrase))


class FirstWordOfSentences(Instruction):
    """Every sentence starts with a given word, ignoring case."""

    first_word: OneOf

    def follows(self, answer: Answer) -> bool:
        expected = _plain(self.first_word)
        return all(
            sentence and sentence.split(maxsplit=1)[0].lower() == expected
            for sentence in plain_sentences(answer.text)
        )


class FirstWord(Instruction):
    """The answer starts with a given word, ignoring case."""

    first_word: OneOf

    def follows(self, answer: Answer) -> bool:
        return answer.text.split(maxsplit=1)[0].lower() == _plain(self.first_word)


class LastWordOfSentences(Instruction):
    """Every sentence ends with a given word, ignoring case and punctuation."""

    last_word: OneOf

    def follows(self, answer: Answer) -> bool:
        expected = _plain(self.last_word)
        return all(
            sentence and _last_word(sentence) == expected
            for sentence in plain_sentences(answer.text)
        )


class LastWord(Instruction):
    """The answer ends with a given word, ignoring case and punctuation."""

    last_word: OneOf

    def follows(self, answer: Answer) -> bool:
        return _last_word(answer.text) == _plain(self.last_word)


def _plain(text: str) -> str:
    return text.strip().lower()


def _last_word(text: str) -> str:
    return _MARKS.sub("", text.rsplit(maxsplit=1)[-1]).lower()


def _passages(text: str, first: str, last: str) -> Iterator[str]:
    """Yield each passage from a `first` to the next `last` on the same line, without overlaps."""
    opening, closing = f"{first} ", f" {last}"
    for line in text.split("\n"):
        end = 0
        while (start := line.find(opening, end)) >= 0:
            close = line.find(closing, start + len(opening))
            if close < 0:
                break
            end = close + len(closing)
            yield line[start:end]
