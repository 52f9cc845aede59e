"""The layout of a message in one version: its fields, their order, and how each is encoded."""

from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as struct_fields

from .fields import Field, Versions
from .primitives import FIXED


class FieldLayout(Struct, frozen=True):
    """How one field is encoded in one version."""

    name: str
    kind: "str | StructLayout"
    is_array: bool
    nullable: bool
    tag: int
    default: Any
    """The value of an absent field; for a list or a struct, the type that makes it."""

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and isinstance(self.kind, str) and self.kind in FIXED

    @property
    def is_always_sent(self) -> bool:
        """Whether a tagged field is never left out. A struct that may be null is not, because an absent one would be a
        struct of defaults instead of null."""
        return self.tag >= 0 and self.nullable and not self.is_array and not isinstance(self.kind, str)

    @property
    def is_struct_array(self) -> bool:
        return self.is_array and not isinstance(self.kind, str)


class StructLayout(Struct, frozen=True):
    """How the fields of one class are encoded in one version."""

    cls: type[Any]
    flexible: bool
    attributes: tuple[tuple[str, Any], ...]
    """All attributes of the class with their defaults, in order, including those that this version lacks."""
    fields: tuple[FieldLayout, ...]
    """The fields outside the tagged section, in the order of the wire."""
    tagged_fields: tuple[FieldLayout, ...]
    """The fields in the tagged section, in the order of their tags."""

    @property
    def has_struct_arrays(self) -> bool:
        return any(field.is_struct_array for field in self.fields)


def message_layout(cls: type[Any], version: int) -> StructLayout:
    """Returns the layout of a message class. Raises ValueError if the class does not have the version."""
    if not Versions.parse(cls.VERSIONS).holds(version):
        raise ValueError(f"{cls.__name__} has the versions {cls.VERSIONS}, not {version}")
    return _struct_layout(cls, version, Versions.parse(cls.FLEXIBLE).holds(version))


def _struct_layout(cls: type[Any], version: int, flexible: bool) -> StructLayout:
    defaults = {
        field.name: field.default if field.default_factory is NODEFAULT else field.default_factory
        for field in struct_fields(cls)
    }
    layouts = [
        _field_layout(field, version, flexible, defaults[field.name])
        for field in cls.FIELDS
        if Versions.parse(field.versions).holds(version)
    ]
    return StructLayout(
        cls=cls,
        flexible=flexible,
        attributes=tuple(defaults.items()),
        fields=tuple(field for field in layouts if field.tag < 0),
        tagged_fields=tuple(sorted((field for field in layouts if field.tag >= 0), key=lambda field: field.tag)),
    )


def _field_layout(field: Field, version: int, flexible: bool, default: Any) -> FieldLayout:
    return FieldLayout(
        name=field.name,
        kind=field.kind if isinstance(field.kind, str) else _struct_layout(field.kind, version, flexible),
        is_array=field.array,
        nullable=Versions.parse(field.nullable).holds(version),
        tag=field.tag if Versions.parse(field.tagged).holds(version) else -1,
        default=default,
    )
