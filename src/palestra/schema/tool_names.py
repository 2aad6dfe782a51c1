"""The names that every provider takes for a tool."""

import re
from typing import Final

TOOL_NAME_RULE: Final = "it must be 1 to 64 letters (a-z, A-Z), digits, '_' or '-'"
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def is_tool_name(name: str) -> bool:
    """Whether every provider takes a tool of this name."""
    return _TOOL_NAME.fullmatch(name) is not None
