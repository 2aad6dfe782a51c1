"""Read the unit after a number, and decide whether two units differ.

math-verify removes units by a list that also has "c", "t" and "ab", so it reads `3t` and `3ab` as
3. Here, letters are a unit only where they cannot be a product of variables.
"""

import re
from collections.abc import Set as AbstractSet
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
    "mph": "mph mi/h",
    "joule": "joule joules",
    "kilojoule": "kilojoule kilojoules",
    "newton": "newton newtons",
    "watt": "watt watts",
    "kilowatt": "kilowatt kilowatts",
    "volt": "volt volts",
    "hertz": "hertz",
    "pascal": "pascal pascals",
    "kilopascal": "kilopascal kilopascals",
    "mole": "mole moles",
    "millimole": "millimole millimoles",
    "ohm": "ohm ohms",
    "man": "man men",
    "woman": "woman women",
}
_UNITS: Final = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_SYMBOLS: Final = {
    "J": "joule",
    "kJ": "kilojoule",
    "N": "newton",
    "W": "watt",
    "kW": "kilowatt",
    "V": "volt",
    "Hz": "hertz",
    "Pa": "pascal",
    "kPa": "kilopascal",
    "mol": "mole",
    "mmol": "millimole",
}
"""Units that count only in exactly this spelling, and only inside a text command."""
_FILLING: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and the of in all total exactly about approximately approx around roughly unit units "
        "only different distinct possible percent each square sq cubic cu answer per cent "
        "or more less fewer greater above below higher lower larger smaller than at least most",
    )
)
"""Words after a number that are not part of its unit."""
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
_WORD = re.compile(r"[^\W\d_]+")
_ASIDE = re.compile(r"\([^()]*\)?")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)$")


def unit_of(answer: str) -> str:
    """Return the unit of an answer: `cm`, `cm^2`, `dollar`; empty when it has no known unit."""
    if answer.startswith(("\\$", "$")) and answer.count("$") == 1:
        return "dollar"
    if _DEGREES.search(answer):
        return "degree"
    tail = _TEXT_TAIL.search(answer) or _BARE_TAIL.search(answer)
    if tail is None or _is_product(answer):
        return ""
    return _known_unit(tail[1], tail[2])


def _known_unit(unit_text: str, power: str | None) -> str:
    if symbol := _SYMBOLS.get(unit_text.strip(" ~.")):
        return symbol + (f"^{power}" if power else "")
    unit_text, _, above = unit_text.strip(" ~.").casefold().partition("^")
    power = power or above.strip(" {}") or None
    first, _, remainder = unit_text.partition(" ")
    wordy = _WORDY.get(first)
    unit = _unit(remainder if wordy else unit_text)
    if not unit:
        return ""
    return unit + (wordy or (f"^{power}" if power else ""))


def _unit(unit_text: str) -> str:
    """Return the standard name of a unit, also of a compound one like `meters per second`."""
    parts = [part.replace(" ", "") for part in re.split(r"\s+per\s+|/", unit_text)]
    units = [_UNITS.get(part, "") for part in parts]
    joined = "/".join(units)
    return _UNITS.get(unit_text.replace(" ", ""), "") or (
        _UNITS.get(joined, joined) if all(units) else ""
    )


def ends_in_variables(answer: str) -> bool:
    r"""Whether the letters at the end are a product and not a unit, as in `3t`, `2ab`, `\pi r h`."""
    return _TEXT_TAIL.search(answer) is None and _is_product(answer)


def _is_product(answer: str) -> bool:
    tail = _BARE_TAIL.search(answer)
    if tail is None or _TEXT_TAIL.search(answer) or _ORDINAL.search(answer):
        return False
    letters, before = tail[1], answer[: tail.start()]
    if len(letters) == 1:
        spaced = before.endswith((" ", "~", "\\,", "\\ "))
        return not (letters in _LETTERS_OF_UNITS and spaced and _NUMBER.fullmatch(before))
    is_unit = letters.casefold() in _UNITS or " " in letters or "/" in letters
    return len(letters) < 4 and not is_unit


def differ(first_text: str, second_text: str) -> bool:
    """Whether two answers state different units. Units are not converted.

    Words that are not known units (`sides`, `diagonals`) differ when neither answer's words include
    the other's.
    """
    first, second = unit_of(first_text), unit_of(second_text)
    if first and second:
        return first != second
    first_words, second_words = _words_behind(first_text, first), _words_behind(second_text, second)
    return bool(first_words and second_words) and not (
        first_words <= second_words or second_words <= first_words
    )


def _words_behind(answer: str, unit: str) -> AbstractSet[str]:
    """Return the words after a number, without words that say nothing about the unit."""
    tail = _TEXT_TAIL.search(answer) or _BARE_TAIL.search(answer)
    if tail is None or not _is_amount(answer[: tail.start()]) or _is_product(answer):
        return frozenset({unit} - {""})
    tail_words = _ASIDE.sub("", tail[1]).casefold() if len(tail[1].strip()) > 1 else tail[1].strip()
    words = frozenset(map(_singular, _WORD.findall(tail_words))) - _FILLING
    return words | ({unit} - {""})


def _is_amount(before: str) -> bool:
    return bool(_NUMBER.fullmatch(before)) and any(sign.isdigit() for sign in before)


def _singular(word: str) -> str:
    if word in _UNITS:
        return _UNITS[word]
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
