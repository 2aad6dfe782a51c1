r"""Units behind a number: which letters are one, and when two are not the same.

The library takes units off, by a list that also holds "c", "t" and "ab", so that it reads `3t`
as 3 and `3ab` as 3. Here letters are a unit only where no product of variables could stand.
"""

import re
from typing import Final

_NAMES: Final = {
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "mg": "mg milligram milligrams",
    "g": "g gram grams",
    "kg": "kg kilogram kilograms kilo kilos",
    "lb": "lb lbs pound pounds",  # of weight, and of money
    "oz": "oz ounce ounces",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs",
    "ml": "ml milliliter milliliters millilitre millilitres",
    "l": "l liter liters litre litres",
    "gal": "gal gallon gallons",
    "dollar": "dollar dollars usd",
    "cent": "cent cents",
    "euro": "euro euros eur",
    "yen": "yen jpy",
    "degree": "degree degrees deg degs",
    "radian": "rad radian radians",
    "km/h": "km/h kmh kph kmph km/hr",
    "m/s": "m/s",
    "mph": "mph mi/h miles/hour",
}
_UNITS: Final = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_WORDY: Final = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
_LETTERS_OF_UNITS: Final = frozenset("mgshl")

_TEXT_TAIL = re.compile(
    r"\\(?:text|textrm|textit|textbf|mathrm|mathit|mbox|rm)\s*\{([^{}]*)\}"
    r"\s*(?:\^\s*\{?\s*([23])\s*\}?)?\s*$"
)
_BARE_TAIL = re.compile(
    r"(?:(?<=\d)|(?<=[}\s,~]))((?:square |sq |cubic |cu )?[A-Za-z]+(?:/[A-Za-z]+)?)"
    r"\s*(?:\^\s*\{?\s*([23])\s*\}?)?$"
)
_DEGREES = re.compile(r"(?:\^\s*\{?\s*\\circ\s*\}?|°)\s*$")
_NUMBER = re.compile(r"(?:[\d\s.,+*/^{}()~-]|\\(?:[dtc]?frac|sqrt|pi|times|cdot|[,;!: ]))*")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)$")


def unit_of(answer: str) -> str:
    r"""The unit that an answer states: `cm`, `cm^2`, `dollar`; empty when none is known."""
    if answer.startswith(("\\$", "$")) and answer.count("$") == 1:
        return "dollar"
    if _DEGREES.search(answer):
        return "degree"
    tail = _TEXT_TAIL.search(answer) or _BARE_TAIL.search(answer)
    if tail is None or _is_product(answer):
        return ""
    return _known(tail[1], tail[2])


def _known(said: str, power: str | None) -> str:
    first, _, rest = said.strip(" ~.").casefold().partition(" ")
    wordy = _WORDY.get(first)
    unit = _UNITS.get(rest.strip() if wordy else f"{first}{rest}", "")
    if not unit:
        return ""
    return unit + (wordy or (f"^{power}" if power else ""))


def ends_in_variables(answer: str) -> bool:
    r"""Whether the letters at the end are a product's and no unit, as in `3t`, `2ab`, `\pi r h`."""
    return _TEXT_TAIL.search(answer) is None and _is_product(answer)


def _is_product(answer: str) -> bool:
    tail = _BARE_TAIL.search(answer)
    if tail is None or _TEXT_TAIL.search(answer) or _ORDINAL.search(answer):
        return False
    letters, before = tail[1], answer[: tail.start()]
    if len(letters) == 1:
        spaced = before.endswith((" ", "~", "\\,", "\\ "))
        return not (letters in _LETTERS_OF_UNITS and spaced and _NUMBER.fullmatch(before))
    known = letters.casefold() in _UNITS or " " in letters or "/" in letters
    return len(letters) < 4 and not known


def differ(one: str, other: str) -> bool:
    """Whether two answers state units, and not the same. Neither is converted."""
    first, second = unit_of(one), unit_of(other)
    return bool(first and second) and first != second
