"""Goes through the fields of a configuration file, and collects settings and warnings. Pure.

Upper and lower case are the same in names of fields, as in Nuclio.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from .nuclio_fields import SPELLINGS
from .setting_values import ValueRefusedError, shown
from .trigger_settings import Given, TriggerConfigError, guess_text
from .yaml_lines import Value

T = TypeVar("T")


class Field(NamedTuple):
    """A field of a file."""

    name: str
    """The name as the file spells it."""
    value: Value
    place: str


class Collected:
    """What a file has given so far. The methods read pieces of the file, and raise TriggerConfigError."""

    def __init__(self, origin: str) -> None:
        """Errors and warnings call the file `origin`."""
        self.origin = origin
        self.layer: dict[str, Given] = {}
        self.warnings: list[str] = []

    def fields(self, value: Value, place: str, known: Collection[str]) -> dict[str, Field]:
        """Returns the fields of a mapping by their names in lower case. Refuses names that are not known."""
        if value.content is None:
            return {}
        if not isinstance(value.content, dict):
            raise TriggerConfigError(f"{place}: {shown(value.plain())} must have fields")
        found: dict[str, Field] = {}
        for name, each in value.content.items():
            key = name.lower()
            field = Field(name, each, self.place(name, each))
            if key not in known:
                raise TriggerConfigError(
                    f"{self.origin}: line {each.line}: there is no field {name}{self._guess(key, known)}"
                )
            if key in found:
                raise TriggerConfigError(f"{field.place} occurs twice, also as {found[key].name}")
            found[key] = field
        return found

    def _guess(self, key: str, known: Collection[str]) -> str:
        return guess_text(key, [*known], SPELLINGS)

    def place(self, name: str, value: Value) -> str:
        """Returns where a field is, for errors and warnings."""
        return f"{self.origin}: line {value.line}: {name}"

    def items(self, field: Field) -> Iterator[Value]:
        """Yields the values of a list."""
        if not isinstance(field.value.content, list):
            raise TriggerConfigError(f"{field.place} must be a list")
        yield from field.value.content

    def text(self, field: Field) -> str:
        """Returns a text that must not be empty."""
        if not isinstance(field.value.content, str) or not field.value.content:
            raise TriggerConfigError(f"{field.place}: {shown(field.value.plain())} is not a text, or is empty")
        return field.value.content

    def is_enabled(self, found: Mapping[str, Field]) -> bool:
        """Whether a structure has `enable: true`."""
        return "enable" in found and str(found["enable"].value.content).lower() == "true"

    def settings(self, found: Mapping[str, Field], settings: Mapping[str, str]) -> None:
        """Takes the fields that are settings. Two fields of one setting must not contradict each other."""
        given_here: dict[str, Field] = {}
        for name, field in found.items():
            if name not in settings or field.value.content in (None, ""):
                continue
            setting = settings[name]
            other = given_here.setdefault(setting, field)
            if other.value.plain() != field.value.plain():
                raise TriggerConfigError(f"{field.place} contradicts {other.name} in line {other.value.line}")
            self.give(setting, field)

    def give(self, setting: str, field: Field) -> None:
        """Takes one field as a setting."""
        content = field.value.plain()
        # A number without a unit is no duration in a file: Nuclio would refuse it as well.
        self.layer[setting] = Given(as_text(content) if isinstance(content, int | float) else content, field.place)

    def refusing(self, field: Field, read: Callable[[object], T]) -> T:
        """Reads the value of a field, and names the field in the error."""
        content = field.value.plain()
        try:
            return read(content)
        except ValueRefusedError as error:
            raise TriggerConfigError(f"{field.place}: {shown(content)} {error}") from error

    def warn_without_effect(self, found: Mapping[str, Field], names: Collection[str]) -> None:
        """Warns about the fields that are ignored."""
        self.warnings += [f"{found[name].place} has no effect in Tailrace" for name in found if name in names]


def as_text(content: object) -> str:
    """Returns a scalar of a file as the text that stands for it."""
    return str(content).lower() if isinstance(content, bool) else str(content)
