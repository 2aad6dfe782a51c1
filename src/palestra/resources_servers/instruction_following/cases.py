"""Instructions about language and case."""

from typing import Final

from pydantic import field_validator

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    Relation,
    holds,
)

_LANGUAGES: Final = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk
    ml mr ne nl no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw
"""
LANGUAGES: Final = frozenset(_LANGUAGES.split())
"""What the detector can tell apart."""
CHINESE: Final = "zh"
"""In either script; the detector always says which."""


class ResponseLanguage(Instruction):
    """The answer is in a language; one that shows none passes."""

    language: str

    @field_validator("language")
    @classmethod
    def _is_known(cls, language: str) -> str:
        known = LANGUAGES | {CHINESE}
        if language not in known:
            names = ", ".join(sorted(known))
            raise ValueError(
                f"no language that can be detected: {language!r}; it is one of {names}"
            )
        return language

    def follows(self, answer: Answer) -> bool:
        found = answer.language
        return found is None or self.language in {found, found.partition("-")[0]}


class EnglishCapital(Instruction):
    """The answer is in English and has no lower case."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.isupper() and answer.language in {"en", None}


class EnglishLowercase(Instruction):
    """The answer is in English and has no capitals."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.islower() and answer.language in {"en", None}


class CapitalWords(Instruction):
    """Less than, or at least, so many words wholly in capitals; a hyphenated one is one."""

    capital_frequency: Count
    capital_relation: Relation

    def follows(self, answer: Answer) -> bool:
        found = sum(1 for word in answer.tokens if word.isupper())
        return holds(found, self.capital_relation, self.capital_frequency)
