"""The facts about its fields that a message class carries.

The generated classes in `messages/` have these facts as `FIELDS`, so that nothing reads JSON at run time. `compile`
turns them into functions, once for each version.
"""

from typing import NamedTuple

_NEWEST = 0x7FFF


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Reads Kafka's notation: `3`, `3-5`, `3+`, `none`."""
        if text in ("", "none"):
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _NEWEST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def holds(self, version: int) -> bool:
        return self.first <= version <= self.last


class Field(NamedTuple):
    """One field of a message or of a struct inside one.

    `kind` is the name of a primitive (`int32`, `string`, `records`, …) or the class of a struct. If `array` is set, the
    field is a list of them. The version ranges have Kafka's notation. A field with a `tag` is in the tagged section in
    the versions of `tagged`.
    """

    name: str
    kind: "str | type"
    versions: str
    array: bool = False
    nullable: str = "none"
    tag: int = -1
    tagged: str = "none"
