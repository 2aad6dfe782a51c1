"""Parses lists and ranges of numbers, for seeds and chunks."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from palestra.errors import ConfigError

LARGEST_SEED: Final = 2**31 - 1
"""The largest seed that every model server accepts."""
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
MOST_PARTS: Final = 100_000
"""The largest number of values in one range. A larger range is probably a typing error."""


def parse_numbers(listed: str | Iterable[int | str], option: str) -> tuple[int, ...]:
    """Return the numbers of a list `0,2,5`, a range `3..9` (both ends included), or an iterable.
    Raises ConfigError: a number is negative, repeated or invalid, or there is none.
    """
    parts = listed.split(",") if isinstance(listed, str) else [str(part) for part in listed]
    numbers = [number for part in parts for number in _numbers(part.strip(), option)]
    twice = (
        sorted({number for number in numbers if numbers.count(number) > 1})
        if (len(set(numbers)) < len(numbers))
        else []
    )
    if twice:
        raise ConfigError(f"{option} names {', '.join(map(str, twice))} more than once")
    if not numbers:
        raise ConfigError(f"{option} names no number", hint="a list 0,2,5 or a range 3..9")
    return tuple(numbers)


def _numbers(part: str, option: str) -> range:
    if matched := _RANGE.fullmatch(part):
        first, last = int(matched[1]), int(matched[2])
        if last < first:
            raise ConfigError(f"{option}: the range {part} ends before it begins")
        if last - first >= MOST_PARTS:
            raise ConfigError(f"{option}: the range {part} has more than {MOST_PARTS:,} numbers")
        return range(first, last + 1)
    if part.isdecimal() and part.isascii():
        return range(int(part), int(part) + 1)
    if re.fullmatch(r"-\d+", part):
        raise ConfigError(f"{option}: {part} is negative; they count from 0")
    raise ConfigError(f"{option}: {part!r} is not a number", hint="a list 0,2,5 or a range 3..9")


def seeds_of(
    num_random_seeds: int | None,
    starting_seed: int | None,
    random_seeds: str | Sequence[int | str] | None,
) -> tuple[int, ...] | None:
    """Return the requested seeds; None when none are requested. Raises ConfigError: both forms are
    given, or a value is invalid.
    """
    if random_seeds is not None:
        both = {"--num-random-seeds": num_random_seeds, "--starting-seed": starting_seed}
        set_names = [name for name, value in both.items() if value is not None]
        if set_names:
            raise ConfigError(f"give --random-seeds or {' and '.join(set_names)}, not both")
        return _bounded(parse_numbers(random_seeds, "--random-seeds"))
    if num_random_seeds is None:
        if starting_seed is not None:
            raise ConfigError("--starting-seed says where --num-random-seeds begins: give both")
        return None
    if num_random_seeds <= 0:
        raise ConfigError(f"--num-random-seeds is {num_random_seeds}, and should be 1 or more")
    first = starting_seed or 0
    if first < 0:
        raise ConfigError(f"--starting-seed is {first}: seeds count from 0")
    return _bounded(tuple(range(first, first + num_random_seeds)))


def _bounded(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if max(seeds) > LARGEST_SEED:
        raise ConfigError(f"seed {max(seeds)} is larger than {LARGEST_SEED}, which servers take")
    return seeds


def chunks_of(
    num_chunks: int | None, chunk_ids: str | Sequence[int | str] | None
) -> tuple[int, ...] | None:
    """Return the chunks to run; None when the tasks are not split into chunks. Raises ConfigError:
    an id or the number of chunks is invalid.
    """
    if num_chunks is None:
        if chunk_ids is not None:
            raise ConfigError("--chunk-ids says which of --num-chunks to run: give both")
        return None
    if num_chunks <= 0:
        raise ConfigError(f"--num-chunks is {num_chunks}, and should be 1 or more")
    if chunk_ids is None:
        return tuple(range(num_chunks))
    chosen = parse_numbers(chunk_ids, "--chunk-ids")
    outside = sorted(number for number in chosen if number >= num_chunks)
    if outside:
        raise ConfigError(
            f"--chunk-ids names {', '.join(map(str, outside))}, and of {num_chunks} chunks the "
            f"last is {num_chunks - 1}"
        )
    return chosen
