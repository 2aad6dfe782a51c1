"""Every problem of one step in one error, and the nearest spellings of what is unknown."""

from collections.abc import Iterable, Sequence

from palestra.errors import ConfigError, Problem


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The one of `words` that looks most like `word`, or None when none does.

    `cutoff` is the least similarity, from 0 (anything) to 1 (equal).
    """
    import difflib

    close = difflib.get_close_matches(str(word), sorted(map(str, words)), n=1, cutoff=cutoff)
    return close[0] if close else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or nothing; to be appended to a message."""
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near is not None else ""


def raise_problems(problems: Sequence[Problem | str], *, hint: str = "") -> None:
    """Do nothing without problems; else raise one `ConfigError` that lists them all."""
    if not problems:
        return
    all_problems = tuple(
        Problem(item, hint=hint) if isinstance(item, str) else item for item in problems
    )
    if len(all_problems) == 1:
        raise ConfigError(
            all_problems[0].message, hint=hint, cause=all_problems[0].cause, problems=all_problems
        )
    listed = "\n".join(f"  - {problem.message}" for problem in all_problems)
    message = f"{len(all_problems)} problems in the configuration:\n{listed}"
    raise ConfigError(message, hint=hint, problems=all_problems)
