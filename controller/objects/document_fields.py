"""Reads a document field by field; what is wrong is said in one sentence that begins with the field's path.

A document is what JSON or YAML was parsed to, written by a person, another program or an older version of us. Nothing
about it is taken for granted: every field is of its type and in its range, and no field is left over.
"""

import re
from enum import StrEnum
from typing import TypeVar

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
    """One sentence: the path of the field, and what is wrong with it."""


class Fields:
    """The fields of one mapping. Each is asked for once, by its name; `end` refuses those that nobody asked for.

    A field that is null counts as not given: that is what an empty line of YAML says.
    """

    __slots__ = ("_asked", "_left", "_path")

    def __init__(self, document: object, path: str = "") -> None:
        if not isinstance(document, dict):
            raise FieldError(f"{path or 'the document'}: {shown(document)} is not a mapping of fields")
        self._left = dict(document)
        self._asked: list[str] = []
        self._path = path

    def path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def fault(self, name: str, fault: str) -> FieldError:
        return FieldError(f"{self.path_of(name)}: {fault}")

    def raw(self, name: str) -> object:
        """As it stands; None when it is not given."""
        self._asked.append(name)
        return self._left.pop(name, None)

    def has(self, name: str) -> bool:
        return name in self._left

    def default(self, name: str, value: object) -> None:
        """What the field is where it is not given."""
        if self._left.get(name) is None:
            self._left[name] = value

    def number(
        self, name: str, low: int = 0, high: int = INT_MAX, *, default: int | None = None, noun: str = "a whole number"
    ) -> int:
        """Without a default it must be given."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return whole_number(self._given(name, value), self, name, low, high, noun)

    def text(self, name: str, default: str | None = None) -> str:
        """Without a default it must be given."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return self._text(name, self._given(name, value))

    def optional_text(self, name: str) -> str | None:
        value = self.raw(name)
        return None if value is None else self._text(name, value)

    def choice(self, name: str, choices: type[E], default: E, *, also: dict[str, E] | None = None) -> E:
        """In capitals or not; `also`: other words for some of the choices."""
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
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} is neither true nor false")
        return value

    def size(self, name: str, default: int | None) -> int | None:
        """A number of bytes, `500M` (of 1000), `2Gi` (of 1024), or `unlimited`: None."""
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
        """A mapping of names to values; numbers and true or false need no quotes."""
        value = self.raw(name)
        if value is None:
            return {}
        entries = Fields(value, self.path_of(name))
        return {key: _value_text(each, entries, key) for key, each in entries._named().items()}

    def fields(self, name: str) -> "Fields":
        """An empty mapping where it is not given."""
        value = self.raw(name)
        return Fields({} if value is None else value, self.path_of(name))

    def each(self, name: str) -> "list[Fields] | None":
        """The mappings of a list; None when it is not given."""
        value = self.raw(name)
        if value is None:
            return None
        path = self.path_of(name)
        if not isinstance(value, list):
            raise FieldError(f"{path}: {shown(value)} is not a list")
        return [Fields(element, f"{path}[{index}]") for index, element in enumerate(value)]

    def end(self) -> None:
        for name in self._left:
            import difflib  # only for the person who mistyped: it is slow to load

            close = difflib.get_close_matches(str(name), self._asked, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(self._asked))}"
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
    if type(value) is not int or not low <= value <= high:
        raise fields.fault(name, f"{shown(value)} is not {noun} from {low} to {high}")
    return value


def size_text(count: int | None) -> str | int:
    """As people write it, where that is exact."""
    if count is None:
        return UNLIMITED
    for unit in _BINARY_UNITS:
        if count % _FACTORS[unit] == 0:
            return f"{count // _FACTORS[unit]}{unit}"
    return count


def shown(value: object) -> str:
    """On one line, whatever it is."""
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
