"""How the report spells numbers."""

UNIT = "\N{NO-BREAK SPACE}%"


def percent(share: float) -> str:
    """A share of 1, to a tenth of a percent; never 0 or 100 % unless it is."""
    if 0 < share < 0.001:
        return f"< 0.1{UNIT}"
    if 0.999 < share < 1:
        return f"> 99.9{UNIT}"
    return f"{100 * share:.1f}{UNIT}"


def amount(count: int, noun: str) -> str:
    """A count with its noun: `1 task`, `20,000 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: float) -> str:
    """A measure to three digits, with thousands separated."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
