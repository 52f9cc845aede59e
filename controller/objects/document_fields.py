"""Reads a document field by field, and reports each fault with the path of its field.

A document is parsed JSON or YAML, written by a person, another program, or an older version of this one. So everything
is checked: every field has its type and its range, and unknown fields are refused.
"""

import re
from enum import StrEnum
from typing import TypeVar

from tailrace.cluster.similar_names import similar

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
UNLIMITED = "unlimited"

E = TypeVar("E", bound=StrEnum)

_SHOWN_CHARACTERS_MAX = 60
_SIZE = re.compile(r"([0-9]{1,19}) ?(k|[KMGTP]i|[MGTP]|)B?", re.ASCII)
_FACTORS = {"": 1} | {
    unit: base**power
    for units, base in ((("k", "M", "G", "T", "P"), 1000), (("Ki", "Mi", "Gi", "Ti", "Pi"), 1024))
    for power, unit in enumerate(units, 1)
}
_BINARY_UNITS = ("Pi", "Ti", "Gi", "Mi", "Ki")


class FieldError(Exception):
    """A field of a document is wrong; the message names the path of the field and what is wrong with it."""


class Fields:
    """The fields of one mapping. The reader takes each field once, by its name; `end` refuses fields that are left.

    A field that is null counts as absent, since that is what an empty line of YAML means.
    """

    __slots__ = ("_asked", "_left", "_path")

    def __init__(self, document: object, path: str = "") -> None:
        if not isinstance(document, dict):
            raise FieldError(f"{path or 'the document'}: {shown(document)} is not a mapping of fields")
        self._left = dict(document)
        self._asked: list[str] = []
        self._path = path

    def path_of(self, name: str) -> str:
        """Returns the path of a field from the top of the document."""
        return f"{self._path}.{name}" if self._path else name

    def fault(self, name: str, fault: str) -> FieldError:
        """Returns the error that says what is wrong with a field."""
        return FieldError(f"{self.path_of(name)}: {fault}")

    def raw(self, name: str) -> object:
        """Takes a field without any check. Returns None if it is absent."""
        self._asked.append(name)
        return self._left.pop(name, None)

    def has(self, name: str) -> bool:
        """Tells whether the document has the field, and it was not taken yet."""
        return name in self._left

    def default(self, name: str, value: object) -> None:
        """Gives a field a value if it is absent."""
        if self._left.get(name) is None:
            self._left[name] = value

    def number(
        self, name: str, low: int = 0, high: int = INT_MAX, *, default: int | None = None, noun: str = "a whole number"
    ) -> int:
        """Takes a whole number from `low` to `high`. The field is required if there is no default."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return whole_number(self._given(name, value), self, name, low, high, noun)

    def text(self, name: str, default: str | None = None) -> str:
        """Takes a text. The field is required if there is no default."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return self._text(name, self._given(name, value))

    def optional_text(self, name: str) -> str | None:
        """Takes a text, or None if the field is absent."""
        value = self.raw(name)
        return None if value is None else self._text(name, value)

    def choice(self, name: str, choices: type[E], default: E, *, also: dict[str, E] | None = None) -> E:
        """Takes one of the choices, in upper or lower case; `also` has further words for some choices."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str):
            try:
                return choices(value)
            except ValueError:
                pass
            words = {word.casefold(): each for word, each in (also or {}).items()}
            words |= {each.casefold(): each for each in choices}
            found = words.get(value.casefold())
            if found is not None:
                return found
        raise self.fault(name, f"{shown(value)} is not one of {', '.join(each for each in choices if each)}")

    def flag(self, name: str, default: bool) -> bool:
        """Takes true or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} is neither true nor false")
        return value

    def size(self, name: str, default: int | None) -> int | None:
        """Takes a size: a number of bytes, `500M` (powers of 1000), `2Gi` (powers of 1024), or `unlimited` for None."""
        value = self.raw(name)
        if value is None:
            return default
        if value == UNLIMITED:
            return None
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        count = int(match[1]) * _FACTORS[match[2]] if match else value
        if type(count) is not int or not 1 <= count <= LONG_MAX:
            raise self.fault(
                name, f"{shown(value)} is not a size: a number of bytes from 1, such as 2Gi or 500M, or {UNLIMITED}"
            )
        return count

    def texts(self, name: str) -> dict[str, str]:
        """Takes a mapping of names to texts, in which numbers, true and false need no quotes."""
        value = self.raw(name)
        if value is None:
            return {}
        entries = Fields(value, self.path_of(name))
        return {key: _value_text(each, entries, key) for key, each in entries._named().items()}

    def fields(self, name: str) -> "Fields":
        """Takes a mapping, which is empty if the field is absent."""
        value = self.raw(name)
        return Fields({} if value is None else value, self.path_of(name))

    def each(self, name: str) -> "list[Fields] | None":
        """Takes a list of mappings, or None if the field is absent."""
        value = self.raw(name)
        if value is None:
            return None
        path = self.path_of(name)
        if not isinstance(value, list):
            raise FieldError(f"{path}: {shown(value)} is not a list")
        return [Fields(element, f"{path}[{index}]") for index, element in enumerate(value)]

    def end(self) -> None:
        """Refuses the document if it has fields that were not taken."""
        for name in self._left:
            close = similar(str(name), self._asked)
            hint = f"there are {', '.join(sorted(self._asked))}" if close is None else f"did you mean {close!r}?"
            raise FieldError(f"{self._path + ': ' if self._path else ''}unknown field {shown(name)}; {hint}")

    def _given(self, name: str, value: object) -> object:
        if value is None:
            raise self.fault(name, "it is missing")
        return value

    def _text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.fault(name, f"{shown(value)} is not a text; quotes make it one")
        if not value.isascii() and not _is_unicode(value):
            raise self.fault(name, f"{shown(value)} is not Unicode")
        return value

    def _named(self) -> dict[str, object]:
        for key in self._left:
            self._text(str(key), key)
        return self._left


def whole_number(value: object, fields: Fields, name: str, low: int, high: int, noun: str = "a whole number") -> int:
    """Checks that `value`, which the field `name` has, is a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise fields.fault(name, f"{shown(value)} is not {noun} from {low} to {high}")
    return value


def size_text(count: int | None) -> str | int:
    """Returns a size as people write it, with a unit if that is exact."""
    if count is None:
        return UNLIMITED
    for unit in _BINARY_UNITS:
        if count % _FACTORS[unit] == 0:
            return f"{count // _FACTORS[unit]}{unit}"
    return count


def shown(value: object) -> str:
    """Shows any value on one short line, for an error message."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    text = ascii(value) if isinstance(value, str) and not _is_unicode(value) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _value_text(value: object, fields: Fields, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() <= 64:
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return fields._text(name, value)
