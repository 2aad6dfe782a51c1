r"""Residues: `2 \pmod 3`, `x \equiv 2 (mod 3)`, which the library reads as products and sums."""

import re
from dataclasses import dataclass

_MOD = re.compile(
    r"(?:(?P<pmod>\\pmod)|\\[bm]?mod|\\(?:text|mathrm|operatorname)\s*\{\s*mod\s*\}|\bmod)"
    r"(?![A-Za-z])"
)
_EQUIVALENT = re.compile(r"\\equiv(?![A-Za-z])|≡")
_SPACE = re.compile(r"\\[,;: ]|[~\s]|\\q?quad(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Congruence:
    """What is congruent to what."""

    name: str
    """Left of the sign; empty when there is none."""
    residue: str
    modulus: str


def congruence(answer: str) -> Congruence | None:
    r"""An answer that states a modulus. `7 \bmod 3` is a number, and states none."""
    found = list(_MOD.finditer(answer)) if "mod" in answer else []
    if len(found) != 1:
        return None
    mod = found[0]
    left, modulus = (_SPACE.sub("", side) for side in (answer[: mod.start()], answer[mod.end() :]))
    sides = _EQUIVALENT.split(left)
    is_bracketed = left.endswith("(") and modulus.endswith(")")
    if not (mod["pmod"] or is_bracketed or len(sides) > 1):
        return None
    name = sides[0] if len(sides) == 2 else ""
    residue, modulus = sides[-1].removesuffix("("), modulus.strip("{}()")
    return Congruence(name, residue, modulus) if residue and modulus else None


def same_residue(one: Congruence, other: Congruence) -> bool | None:
    """Whether whole numbers are in one class; None when they are not whole numbers."""
    if one.modulus != other.modulus:
        return None
    try:
        modulus, first, second = map(int, (one.modulus, one.residue, other.residue))
    except ValueError:
        return None
    return modulus != 0 and (first - second) % modulus == 0
