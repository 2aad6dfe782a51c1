"""A YAML document with the line of each key, in which top-level values can be replaced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palestra.config import line_in, parse_yaml, write_yaml
from palestra.errors import ConfigError

if TYPE_CHECKING:
    import yaml

Step = int | str


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The text of a file, and the tree that it contains."""

    path: Path
    text: str
    tree: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises ConfigError: it cannot be read, or is no mapping in YAML."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as failure:
            raise ConfigError(f"cannot read {path}: {failure}") from failure
        return cls.parse(path, text)

    @classmethod
    def parse(cls, path: Path, text: str) -> Self:
        """Return the document of `text`. Raises ConfigError: it is no mapping in YAML."""
        tree, _ = parse_yaml(text, where=str(path))
        return cls(path, text, tree)

    def known_steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return the part of `steps` that leads to an existing value."""
        value: Any = self.tree
        existing_steps: list[Step] = []
        for step in steps:
            is_key = isinstance(value, Mapping) and step in value
            is_index = isinstance(value, list) and isinstance(step, int) and step < len(value)
            if not (is_key or is_index):
                break
            value = value[step]
            existing_steps.append(step)
        return tuple(existing_steps)

    def line_of(self, steps: Sequence[Step]) -> int:
        """Return the line, from 1, of the key that `steps` leads to.

        When the key is missing: the line of the mapping that should have it.
        """
        return line_in(self.text, steps) or 1

    def with_values(self, values: Mapping[str, Any]) -> str:
        """Return the text with other values for these top-level keys. Comments of other keys stay.

        A key that the document lacks is added at the end.
        """
        text = self.text
        spans = {}
        root = self._root()
        for key, child in () if root is None else root.value:
            if key.value in values:
                spans[key.value] = (key.start_mark.index, _end_of(child, text))
        for name, (start, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
            text = text[:start] + write_yaml({name: values[name]}).rstrip("\n") + text[end:]
        missing = {name: value for name, value in values.items() if name not in spans}
        if not missing:
            return text
        return text + ("" if not text or text.endswith("\n") else "\n") + write_yaml(missing)

    def _root(self) -> "yaml.MappingNode | None":
        import yaml

        node = yaml.compose(self.text, Loader=yaml.SafeLoader)
        return node if isinstance(node, yaml.MappingNode) else None


def _end_of(node: "yaml.Node", text: str) -> int:
    """Return the index behind a value, without the comments and empty lines that follow it."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_of(last[1] if isinstance(node, yaml.MappingNode) else last, text)
    start, end = node.start_mark.index, node.end_mark.index
    return start + len(text[start:end].rstrip())
