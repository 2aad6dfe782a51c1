"""Pairs of expected and given answers as they come in maths data, made from a seed."""

import random
from collections.abc import Callable
from typing import Final

SEED: Final = 20260


def pairs(count: int) -> list[tuple[str, str]]:
    """Expected answer, and a model's text with its answer in a box. Half are wrong."""
    rng = random.Random(SEED)
    return [_pair(rng, number) for number in range(count)]


def _pair(rng: random.Random, number: int) -> tuple[str, str]:
    expected, same, other = _KINDS[number % len(_KINDS)](rng)
    answer = same if rng.random() < 0.5 else other
    return expected, f"Let us think step by step. So we get $\\boxed{{{answer}}}$."


def _integer(rng: random.Random) -> tuple[str, str, str]:
    n = rng.randint(-500, 99_999)
    return str(n), f"{n:,}", str(n + 1)


def _fraction(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(1, 999), rng.randint(2, 999)
    return rf"\frac{{{a}}}{{{b}}}", rf"\dfrac{{{2 * a}}}{{{2 * b}}}", rf"\frac{{{a + b}}}{{{b}}}"


def _decimal(rng: random.Random) -> tuple[str, str, str]:
    n = rng.randint(100, 99_999)
    return f"{n / 100:.2f}", rf"\frac{{{n}}}{{100}}", f"{n / 10:.1f}"


def _root(rng: random.Random) -> tuple[str, str, str]:
    k, n = rng.randint(2, 12), rng.choice((2, 3, 5, 6, 7))
    return rf"{k}\sqrt{{{n}}}", rf"\sqrt{{{k * k * n}}}", rf"{n}\sqrt{{{k * k + 1}}}"


def _polynomial(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(1, 30), rng.randint(1, 30)
    return f"(x+{a})(x-{b})", f"x^2 + {a - b}x - {a * b}", f"x^2 - {a + b}x - {a * b}"


def _set(rng: random.Random) -> tuple[str, str, str]:
    a, b, c = rng.sample(range(-50, 50), 3)
    return rf"\{{{a}, {b}, {c}\}}", f"{c}, {a}, {b}", f"{c}, {a}, {b + 101}"


def _interval(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(-50, 0), rng.randint(1, 50)
    return f"[{a}, {b})", rf"\left[{a}, {b}\right)", f"({a}, {b})"


def _units(rng: random.Random) -> tuple[str, str, str]:
    n = rng.randint(2, 999)
    return str(n), rf"{n}\text{{ cm}}", rf"{n}0\text{{ cm}}"


_KINDS: Final[tuple[Callable[[random.Random], tuple[str, str, str]], ...]] = (
    _integer,
    _fraction,
    _decimal,
    _root,
    _polynomial,
    _set,
    _interval,
    _units,
)
