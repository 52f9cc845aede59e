"""Reads a YAML or JSON document into values that know their lines, so that an error can name the line of a field.

Two traps of YAML are closed. A field that occurs twice is refused, because the second one would silently win. An alias
is refused, because aliases can make a small file a huge document.
"""

from typing import Any

from msgspec import Struct

CHARACTERS_MAX = 4 * 1024 * 1024


class YamlError(Exception):
    """A document is wrong; the message is one sentence that says where, and what."""


class Value(Struct):
    """A value of a document. The value of a field has the line of the field's name."""

    content: object
    """A scalar, a `dict` of fields by their names, or a `list` of values."""
    line: int

    def plain(self) -> Any:
        """Returns the value without lines."""
        if isinstance(self.content, dict):
            return {name: each.plain() for name, each in self.content.items()}
        if isinstance(self.content, list):
            return [each.plain() for each in self.content]
        return self.content


def read_yaml(text: str, origin: str) -> Value:
    """Reads the only document of a text. Errors call the text `origin`. Raises YamlError."""
    import yaml  # imported here because most triggers have no file

    if len(text) > CHARACTERS_MAX:
        raise YamlError(f"{origin}: the file has more than {CHARACTERS_MAX} characters")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise YamlError(f"{origin}: the file is empty")
        return _value(loader, node, node.start_mark.line, set(), origin)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f": line {error.problem_mark.line + 1}"
        raise YamlError(f"{origin}{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(f"{origin}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise YamlError(f"{origin}: the document is nested too deeply") from error


def _value(loader: Any, node: Any, line: int, seen: set[int], origin: str) -> Value:
    if id(node) in seen:
        raise YamlError(f"{origin}: line {line + 1}: an alias refers to this value; write it out instead")
    seen.add(id(node))
    if node.id == "sequence":
        return Value([_value(loader, each, each.start_mark.line, seen, origin) for each in node.value], line + 1)
    if node.id == "mapping":
        fields: dict[str, Value] = {}
        for key, value in node.value:
            name = key.value if key.id == "scalar" else None
            key_line = key.start_mark.line
            if not isinstance(name, str):
                raise YamlError(f"{origin}: line {key_line + 1}: the name of a field must be a text")
            if name in fields:
                raise YamlError(f"{origin}: line {key_line + 1}: the field {name!r} occurs twice")
            fields[name] = _value(loader, value, key_line, seen, origin)
        return Value(fields, line + 1)
    return Value(loader.construct_object(node, deep=True), line + 1)
