"""Find the line of a setting in the nodes of a YAML document."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

_MERGE_TAG = "tag:yaml.org,2002:merge"
_TYPES_OF_KEYS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "null"))


def line_below(
    root: "yaml.Node | None", steps: Sequence[Any], key_of: "Callable[[yaml.ScalarNode], Any]"
) -> int | None:
    """Return the line, from 1, of the key that `steps` lead to; None when the root is no mapping.

    When the key is missing: the line of the mapping that should have it. `key_of` returns the number
    or the boolean that a key stands for.
    """
    import yaml

    if not isinstance(root, yaml.MappingNode):
        return None
    node: yaml.Node = root
    line = 1
    for step in steps:
        pair = _pair_at(node, step, key_of)
        if pair is None:
            break
        start, node = pair
        line = start.start_mark.line + 1
    return line


def _pair_at(
    node: "yaml.Node", step: Any, key_of: "Callable[[yaml.ScalarNode], Any]"
) -> "tuple[yaml.Node, yaml.Node] | None":
    """Return the first node of the entry at a step, which is its key, and the node of its value. None:
    there is no such step.
    """
    import yaml

    if isinstance(node, yaml.SequenceNode):
        if not str(step).isdecimal() or int(step) >= len(node.value):
            return None
        item = node.value[int(step)]
        return item, item
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in node.value:
        if key.value == str(step) or (key.tag in _TYPES_OF_KEYS and key_of(key) == step):
            return key, value
    for key, value in node.value:
        if key.tag == _MERGE_TAG:
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            pairs = (_pair_at(mapping, step, key_of) for mapping in merged)
            if pair := next(filter(None, pairs), None):
                return pair
    return None
