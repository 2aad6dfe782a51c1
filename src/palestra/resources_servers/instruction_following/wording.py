"""Instructions about what an answer repeats, and with which words it starts and ends."""

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
    """Two different answers with six asterisks between them."""

    def follows(self, answer: Answer) -> bool:
        parts = [part.strip() for part in answer.text.split(SEPARATOR)]
        if not all(parts[1:-1]):
            return False
        given = [part for part in parts if part]
        return len(given) == len("ab") and given[0] != given[1]


class RepeatPrompt(Instruction):
    """The answer starts with the prompt, in either case."""

    prompt_to_repeat: Prompt

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text).startswith(_plain(self.prompt_to_repeat))


class CopyPrompt(Instruction):
    """The answer is the prompt, in either case."""

    prompt_to_repeat: Prompt

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text) == _plain(self.prompt_to_repeat)


class CopySeveral(Instruction):
    """The answer is the prompt so many times, with six asterisks in between."""

    prompt_to_repeat: Prompt
    N: Ordinal

    def follows(self, answer: Answer) -> bool:
        copies = answer.text.split(SEPARATOR)
        wanted = _plain(self.prompt_to_repeat)
        return len(copies) == self.N and all(_plain(copy) == wanted for copy in copies)


class CopySpan(Instruction):
    """The answer is the prompt from one character to before another, both counted from 0."""

    prompt_to_repeat: Prompt
    n_start: Count
    n_end: Ordinal

    @model_validator(mode="after")
    def _there_is_a_span(self) -> Self:
        if not self._span():
            raise ValueError(f"the prompt has nothing from {self.n_start} to {self.n_end}")
        return self

    def follows(self, answer: Answer) -> bool:
        return _plain(answer.text) == self._span()

    def _span(self) -> str:
        return _plain(self.prompt_to_repeat[self.n_start : self.n_end])


class RepeatPhrase(Instruction):
    """A phrase occurs so many times, each with at most one word replaced, the last with one."""

    phrase: Annotated[Phrase, Field(pattern=r"\S\s+\S")]
    small_n: Ordinal

    def follows(self, answer: Answer) -> bool:
        words = self.phrase.split()
        found = [copy.split() for copy in _passages(answer.text, words[0], words[-1])]
        if len(found) != self.small_n or any(len(copy) != len(words) for copy in found):
            return False
        changes = [sum(a != b for a, b in zip(copy, words, strict=True)) for copy in found]
        return max(changes) <= 1 and changes[-1] == 1


class EndPhrase(Instruction):
    """The answer ends with a phrase, in either case; quotation marks may follow."""

    end_phrase: Phrase

    def follows(self, answer: Answer) -> bool:
        return answer.text.strip().strip('"').lower().endswith(_plain(self.end_phrase))


class FirstWordOfSentences(Instruction):
    """Every sentence starts with a word, in either case."""

    first_word: OneOf

    def follows(self, answer: Answer) -> bool:
        wanted = _plain(self.first_word)
        return all(
            sentence and sentence.split(maxsplit=1)[0].lower() == wanted
            for sentence in plain_sentences(answer.text)
        )


class FirstWord(Instruction):
    """The answer starts with a word, in either case."""

    first_word: OneOf

    def follows(self, answer: Answer) -> bool:
        return answer.text.split(maxsplit=1)[0].lower() == _plain(self.first_word)


class LastWordOfSentences(Instruction):
    """Every sentence ends with a word, in either case, punctuation marks aside."""

    last_word: OneOf

    def follows(self, answer: Answer) -> bool:
        wanted = _plain(self.last_word)
        return all(
            sentence and _last_word(sentence) == wanted for sentence in plain_sentences(answer.text)
        )


class LastWord(Instruction):
    """The answer ends with a word, in either case, punctuation marks aside."""

    last_word: OneOf

    def follows(self, answer: Answer) -> bool:
        return _last_word(answer.text) == _plain(self.last_word)


def _plain(text: str) -> str:
    return text.strip().lower()


def _last_word(text: str) -> str:
    return _MARKS.sub("", text.rsplit(maxsplit=1)[-1]).lower()


def _passages(text: str, first: str, last: str) -> Iterator[str]:
    """From each `first` to the next `last` on its line, without overlaps."""
    opening, closing = f"{first} ", f" {last}"
    for line in text.split("\n"):
        end = 0
        while (start := line.find(opening, end)) >= 0:
            close = line.find(closing, start + len(opening))
            if close < 0:
                break
            end = close + len(closing)
            yield line[start:end]
