"""Report all problems of one step in one error, and suggest the nearest spelling of unknown names."""

from collections.abc import Iterable, Sequence

from palestra.errors import ConfigError, Problem


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the word of `words` that is most similar to `word`; None when none is similar enough.

    `cutoff` is the least similarity, from 0 (anything) to 1 (equal).
    """
    import difflib

    close = difflib.get_close_matches(str(word), sorted(map(str, words)), n=1, cutoff=cutoff)
    return close[0] if close else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for appending to a message; empty when no word is similar."""
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near is not None else ""


def raise_problems(problems: Sequence[Problem | str], *, hint: str = "") -> None:
    """Raise one `ConfigError` that lists all problems. Do nothing when there are none."""
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
