"""Report all problems of one step in one error, and suggest the nearest spelling of unknown names."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from palestra.config.yaml_text import line_at
from palestra.errors import ConfigError, Problem
from palestra.system import file_and_line

_SLIP: Final = 0.85
"""The least similarity of a slip: one or two letters of a usual name."""

LEAST_REPLACED: Final = 4
"""The length from which a word with one wrong letter is most likely misspelt."""

_MISSPELT: Final = 0.75
"""The least similarity of a key to a setting that is required and missing."""


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the word of `words` that is most similar to `word`; None when none is similar enough.

    `cutoff` is the least similarity, from 0 (anything) to 1 (equal).
    """
    import difflib

    close = difflib.get_close_matches(str(word), sorted(map(str, words)), n=1, cutoff=cutoff)
    return close[0] if close else None


def slip_of(word: str, words: Iterable[str]) -> str | None:
    """Return the word of `words` that `word` is most likely meant to be; None when `word` may be a
    name of its own. For places that accept any name.
    """
    names = sorted(map(str, words))
    return nearest(word, names, cutoff=_SLIP) or next(
        # Two exchanged letters of a short name make it much less similar.
        (n for n in names if sorted(n) == sorted(word) and is_one_slip(word, n)),
        None,
    )


def is_variant(word: str, near: str, *, plural: bool = False) -> bool:
    """Whether two names differ by numbers, by a word of one letter, or by words before or after.

    `plural`: whether a difference in the last `s` counts as well.
    """
    longer = word.startswith(f"{near}_") or word.endswith(f"_{near}")
    return longer or _stem(word, plural=plural) == _stem(near, plural=plural)


def is_one_slip(word: str, near: str, *, least_replaced: float = LEAST_REPLACED) -> bool:
    """Whether one letter was left out, put in, or exchanged with the next.

    A replaced letter may make another name: `f1_micro` and `f1_macro`, `top_a` and `top_n`.
    `least_replaced`: the number of letters from which it is a slip, of the word of the name that has
    it.
    """
    shorter, longer = sorted((word, near), key=len)
    if len(longer) - len(shorter) == 1:
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    if len(longer) != len(shorter):
        return False
    differing = [at for at, pair in enumerate(zip(word, near, strict=True)) if len(set(pair)) > 1]
    if len(differing) == 1:
        ends = (near[: differing[0]].rpartition("_")[2], near[differing[0] :].partition("_")[0])
        return sum(map(len, ends)) >= least_replaced
    if len(differing) != 2:
        return False
    first, second = differing
    return second == first + 1 and word[first : second + 1] == near[second] + near[first]


def _stem(word: str, *, plural: bool) -> str:
    import re

    stem = re.sub(r"\d+|(?<=_)[a-z](?=_|$)", "", word).rstrip("_")
    return stem.replace("_", "").rstrip("s") if plural else stem


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for appending to a message; empty when no word is similar. A name
    with a blank, as of a column of a table, is named as such.
    """
    near = nearest(word, words)
    if near is None:
        return ""
    if near != word and near.strip() == word:
        side = "before" if near != near.lstrip() else "after"
        return f"; {near!r} has a blank {side} the name"
    return f"; did you mean {near!r}?"


def misspelt_as(name: str, keys: Iterable[str]) -> str:
    """Return the end of a message that the setting `name` is missing: the key that is most likely
    meant to be it. Empty when no key is similar.
    """
    near = nearest(name, keys, cutoff=_MISSPELT)
    return f"; {near!r} is set; did you mean {name!r}?" if near is not None else ""


def located(problem: Problem, path: Path | None, steps: Sequence[Any]) -> Problem:
    """Return the problem with its file and line, with which its message then begins.

    `path`: the file that has the setting at `steps`, or should have it; it is read again for its
    line. None leaves the problem as it is.
    """
    if path is None:
        return problem
    line = line_at(path, steps)
    message = f"{file_and_line(path, line)}: {problem.message}"
    return replace(problem, message=message, file=str(path), line=line or 0)


def raise_problems(problems: Sequence[Problem | str], *, hint: str = "") -> None:
    """Raise the error of `error_of`. Do nothing when there are no problems."""
    if problems:
        raise error_of(problems, hint=hint)


def error_of(problems: Sequence[Problem | str], *, hint: str = "") -> ConfigError:
    """Return one `ConfigError` that lists all problems, of which there is at least one."""
    all_problems = tuple(
        Problem(item, hint=hint) if isinstance(item, str) else item for item in problems
    )
    if len(all_problems) == 1:
        (only,) = all_problems
        return ConfigError(
            only.message, hint=only.hint or hint, cause=only.cause, problems=all_problems
        )
    listed = "\n".join(f"  - {problem.message}" for problem in all_problems)
    message = f"{len(all_problems)} problems in the configuration:\n{listed}"
    return ConfigError(message, hint=hint, problems=all_problems)
