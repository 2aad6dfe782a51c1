"""Instructions about the words and letters of an answer, and how often they occur."""

import re
from itertools import pairwise
from typing import Annotated, Final

from pydantic import Field

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    OneOf,
    Ordinal,
    Phrase,
    Relation,
    holds,
)
from palestra.resources_servers.instruction_following.sentences import plain_sentences
from palestra.resources_servers.instruction_following.words import (
    count_matches,
    keyword_pattern,
    treebank_words,
)

Phrases = Annotated[tuple[Phrase, ...], Field(min_length=1)]

_LOWERCASE: Final = re.compile(r"\b[a-z]+\b")
_LETTERS: Final = re.compile(r"[a-zA-Z]+")


class Existence(Instruction):
    """Every keyword occurs, ignoring case, also inside a word."""

    keywords: Phrases

    def follows(self, answer: Answer) -> bool:
        return all(keyword_pattern(keyword).search(answer.text) for keyword in self.keywords)


class Frequency(Instruction):
    """A keyword occurs less than, or at least, `frequency` times."""

    keyword: Phrase
    frequency: Count
    relation: Relation

    def follows(self, answer: Answer) -> bool:
        count = count_matches(keyword_pattern(self.keyword.strip()), answer.text)
        return holds(count, self.relation, self.frequency)


class Once(Instruction):
    """A keyword occurs exactly once."""

    keyword: Phrase

    def follows(self, answer: Answer) -> bool:
        return count_matches(keyword_pattern(self.keyword.strip()), answer.text) == 1


class OnceAndTwice(Instruction):
    """One keyword occurs exactly once, another exactly twice."""

    keyword1: Phrase
    keyword2: Phrase

    def follows(self, answer: Answer) -> bool:
        once, twice = (
            count_matches(keyword_pattern(keyword.strip()), answer.text)
            for keyword in (self.keyword1, self.keyword2)
        )
        return (once, twice) == (1, 2)


class ForbiddenWords(Instruction):
    """None of the words occurs as a whole word, ignoring case."""

    forbidden_words: Phrases

    def follows(self, answer: Answer) -> bool:
        return not any(
            keyword_pattern(word, whole_words=True).search(answer.text)
            for word in self.forbidden_words
        )


class ExcludedWord(Instruction):
    """A word does not occur with a space on each side; the case must match."""

    keyword: Phrase
    instruction: str | None = None
    """The source of the word; ignored."""

    def follows(self, answer: Answer) -> bool:
        return f" {self.keyword.strip()} " not in answer.text


class LetterFrequency(Instruction):
    """A character occurs less than, or at least, `let_frequency` times, ignoring case."""

    letter: Annotated[str, Field(pattern=r"^\S$")]
    let_frequency: Count
    let_relation: Relation

    def follows(self, answer: Answer) -> bool:
        count = answer.text.lower().count(self.letter.lower())
        return holds(count, self.let_relation, self.let_frequency)


class LetterCount(Instruction):
    """The answer has less than, or at least, `N` letters from A to Z, in either case."""

    N: Count
    relation: Relation

    def follows(self, answer: Answer) -> bool:
        count = sum(len(run) for run in _LETTERS.findall(answer.text))
        return holds(count, self.relation, self.N)


class LowercaseWords(Instruction):
    """At most `N` words are all in lower case, from a to z."""

    N: Count

    def follows(self, answer: Answer) -> bool:
        return count_matches(_LOWERCASE, answer.text) <= self.N


class UniqueWords(Instruction):
    """No word and no punctuation mark occurs twice."""

    def follows(self, answer: Answer) -> bool:
        return len(set(answer.tokens)) == len(answer.tokens)


class NoConsecutiveLetters(Instruction):
    """No word starts with the letter that comes in the alphabet right after the previous word's
    first letter.
    """

    def follows(self, answer: Answer) -> bool:
        firsts = [word[0].lower() for word in answer.text.split()]
        return all(
            len(first) == 1 and len(two) == 1 and ord(two) - ord(first) != 1
            for first, two in pairwise(firsts)
        )


class Palindrome(Instruction):
    """At least one word is a palindrome; a word of one character counts."""

    def follows(self, answer: Answer) -> bool:
        return any(word == word[::-1] for word in answer.text.split())


class AtPosition(Instruction):
    """A keyword is the `m`-th word of the `n`-th sentence, both counted from 1; the case must
    match.
    """

    keyword: OneOf
    n: Ordinal
    m: Ordinal

    def follows(self, answer: Answer) -> bool:
        sentences = plain_sentences(answer.text)
        if len(sentences) < self.n:
            return False
        words = treebank_words(sentences[self.n - 1])
        return len(words) >= self.m and words[self.m - 1] == self.keyword.strip()


class SameStartAndEnd(Instruction):
    """The first word is also the last, ignoring case, with nothing after it."""

    def follows(self, answer: Answer) -> bool:
        words = answer.tokens
        return len(words) > 1 and words[0].lower() == words[-1].lower()
