"""Writes the source of the function that encodes one version of a message.

The function collects small pieces of bytes, and joins them at the end or before `records`. Two things make it fast.
First, adjacent fields of fixed size, and the length that follows them, are packed with one `struct.pack`. Second, a
struct whose optional fields are all empty, as in almost every response, takes a path in which their lengths count as
fields of fixed size: a partition of a Produce response is then a single piece.
"""

import struct
from contextlib import nullcontext

from .message_layout import FieldLayout, StructLayout
from .primitives import FIXED, run_packer, tagged, uvarint
from .source import Source

_NULL_STRUCT = repr(b"\xff")
_NULL_TAGGED_STRUCT = repr(b"\x00")
"""The encoding of null in a field that may be a struct. A struct that is not null has a 1 before it."""


def encoder_source(layout: StructLayout) -> Source:
    """Returns the source of `encode(message, parts)`."""
    source = Source(byte=[bytes((value,)) for value in range(128)], uvarint=uvarint, tagged=tagged, join=b"".join)
    with source.function("def encode(message, parts):"):
        source.line("out = []")
        source.line("write = out.append")
        writer = _Writer(source, layout.flexible)
        writer.struct(layout, "message")
        writer.flush()
        with source.block("if out:"):
            source.line("parts.append(join(out))")
    return source


class _Writer:
    """Writes the lines that encode fields, with adjacent fields of fixed size in one call."""

    def __init__(self, source: Source, flexible: bool) -> None:
        self._source = source
        self._flexible = flexible
        self._codes: list[str] = []
        self._values: list[str] = []

    # adjacent fields of fixed size, which wait until something else has to be written

    def _fixed(self, code: str, value: str | None = None) -> None:
        self._codes.append(code)
        if value is not None:
            self._values.append(value)

    def flush(self) -> None:
        if self._codes:
            self._source.line(f"write({self._take()})")

    def _take(self) -> str:
        """Returns the expression that packs the waiting fields."""
        codes, values = "".join(self._codes), ", ".join(self._values)
        self._codes, self._values = [], []
        if not values:
            return repr(bytes(len(codes)))
        return f"{self._packer(codes)}({values})"

    def _packer(self, codes: str) -> str:
        return self._source.name("pack", f"pack {codes}", struct.Struct(">" + codes).pack)

    def _length(self, value: str, code: str) -> None:
        """Packs a length together with the waiting fields. In the compact encoding, `value` is the length plus one."""
        if not self._flexible:
            self._fixed(code, value)
            self.flush()
            return
        if self._codes:
            short = f"{self._packer(''.join(self._codes) + 'B')}({', '.join([*self._values, value])})"
            long = f"{self._take()} + uvarint({value})"
        else:
            short, long = f"byte[{value}]", f"uvarint({value})"
        self._source.line(f"write({short} if {value} < 128 else {long})")

    def _length_of_nothing(self, value: str, code: str, nullable: bool) -> None:
        """Adds the length of an empty field to the waiting fields."""
        null, empty = (0, 1) if self._flexible else (-1, 0)
        self._fixed(
            "B" if self._flexible else code, f"{null} if {value} is None else {empty}" if nullable else str(empty)
        )

    # structs

    def struct(self, layout: StructLayout, value: str) -> None:
        """Encodes all fields of `value`. The last fields may remain waiting."""
        optional = _usually_empty(layout)
        if not optional:
            self._fields(layout, value, ())
            return
        self.flush()
        with self._source.block(f"if {' and '.join(_is_empty(field, value) for field in optional)}:"):
            self._fields(layout, value, optional)
            self.flush()
        with self._source.block("else:"):
            self._fields(layout, value, ())
            self.flush()

    def _fields(self, layout: StructLayout, value: str, empty: tuple[FieldLayout, ...]) -> None:
        for field in layout.fields:
            if field in empty:
                self._length_of_nothing(f"{value}.{field.name}", _length_code(field), field.nullable)
            else:
                self._field(field, f"{value}.{field.name}")
        if layout.flexible:
            if layout.tagged_fields and not empty:
                self._tagged_section(layout.tagged_fields, value)
            else:
                self._fixed("x")

    def _tagged_section(self, fields: tuple[FieldLayout, ...], value: str) -> None:
        tags = self._source.fresh("tags")
        self._source.line(f"{tags} = []")
        for field in fields:
            with nullcontext() if field.is_always_sent else self._source.block(f"if not ({_is_empty(field, value)}):"):
                body = f"{self._value_encoder(field)}({value}.{field.name})"
                self._source.line(f"{tags}.append(tagged({field.tag}, {body}))")
        self._fixed("B", f"len({tags})")
        self.flush()
        self._source.line(f"out += {tags}")

    def _value_encoder(self, field: FieldLayout) -> str:
        """Writes a function that encodes a tagged field, whose size has to be known in advance. Returns its name."""
        name = self._source.fresh("encode_tagged")
        with self._source.function(f"def {name}(value):"):
            self._source.line("out = []")
            self._source.line("write = out.append")
            writer = _Writer(self._source, self._flexible)
            writer._field(field, "value")
            writer.flush()
            self._source.line("return join(out)")
        return name

    # fields

    def _field(self, field: FieldLayout, value: str) -> None:
        if field.is_array:
            self._array(field, value)
        elif isinstance(field.kind, StructLayout):
            self._nested(field.kind, value, field)
        elif field.kind in FIXED:
            self._fixed(FIXED[field.kind], f"{value}.bytes" if field.kind == "uuid" else value)
        elif field.kind == "string":
            self._string(value, field.nullable)
        else:
            self._bytes(value, field.nullable, is_records=field.kind == "records")

    def _nested(self, layout: StructLayout, value: str, field: FieldLayout) -> None:
        if not field.nullable:
            self.struct(layout, value)
            return
        self.flush()
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"write({_NULL_TAGGED_STRUCT if field.tag >= 0 else _NULL_STRUCT})")
        with self._source.block("else:"):
            self._fixed("b", "1")
            self.struct(layout, value)
            self.flush()

    def _string(self, value: str, nullable: bool) -> None:
        length, content = self._source.fresh("n"), self._source.fresh("s")
        more = " + 1" if self._flexible else ""
        if nullable:
            self._source.line(f"{content} = {value}")
            with self._source.block(f"if {content} is None:"):
                self._source.line(f"{content} = b''")
                self._source.line(f"{length} = {0 if self._flexible else -1}")
            with self._source.block("else:"):
                self._source.line(f"{content} = {content}.encode()")
                self._source.line(f"{length} = len({content}){more}")
        else:
            self._source.line(f"{content} = {value}.encode()")
            self._source.line(f"{length} = len({content}){more}")
        self._length(length, "h")
        self._source.line(f"write({content})")

    def _bytes(self, value: str, nullable: bool, *, is_records: bool) -> None:
        length, content = self._source.fresh("n"), self._source.fresh("s")
        self._source.line(f"{content} = {value}")
        self._length_of(content, length, nullable)
        self._length(length, "i")
        with self._source.block(f"if {content}:"):
            if is_records:
                self._source.line("parts.append(join(out))")
                self._source.line("out.clear()")
                self._source.line(f"parts.append({content})")
            else:
                self._source.line(f"write({content})")

    def _array(self, field: FieldLayout, value: str) -> None:
        length, content = self._source.fresh("n"), self._source.fresh("s")
        self._source.line(f"{content} = {value}")
        self._length_of(content, length, field.nullable)
        self._length(length, "i")
        with self._source.block(f"if {content}:"):
            if isinstance(field.kind, str) and field.kind in FIXED and field.kind != "uuid":
                run = self._source.name("run", f"run {field.kind}", run_packer(FIXED[field.kind]))
                self._source.line(f"write({run}({content}))")
                return
            item = self._source.fresh("item")
            with self._source.block(f"for {item} in {content}:"):
                self._element(field.kind, item)
                self.flush()

    def _element(self, kind: str | StructLayout, value: str) -> None:
        if isinstance(kind, StructLayout):
            self.struct(kind, value)
        else:
            self._field(FieldLayout("", kind, is_array=False, nullable=False, tag=-1, default=None), value)

    def _length_of(self, content: str, length: str, nullable: bool) -> None:
        counted = f"len({content}) + 1" if self._flexible else f"len({content})"
        null = 0 if self._flexible else -1
        self._source.line(
            f"{length} = {null} if {content} is None else {counted}" if nullable else f"{length} = {counted}"
        )


def _usually_empty(layout: StructLayout) -> tuple[FieldLayout, ...]:
    """Returns the fields for which the path of empty fields pays. There are none if that would double the code of
    nested arrays."""
    optional = tuple(field for field in layout.fields if _is_optional(field))
    if any(field.is_struct_array and field not in optional for field in layout.fields):
        return ()
    if any(field.is_always_sent for field in layout.tagged_fields):
        return ()
    return optional + layout.tagged_fields


def _is_optional(field: FieldLayout) -> bool:
    if field.is_array:
        return field.nullable or (isinstance(field.kind, StructLayout) and not field.kind.has_struct_arrays)
    return field.nullable and field.kind in ("string", "bytes")


def _is_empty(field: FieldLayout, owner: str) -> str:
    """Returns the condition under which a field takes a single byte, or none if it is tagged."""
    value = f"{owner}.{field.name}"
    if field.tag >= 0 and field.is_array and field.nullable and field.default is not None:
        return f"{value} is not None and not {value}"  # a field that is left out is read as empty, not as null
    if field.tag < 0 or field.is_array or not field.default:
        return f"not {value}" if field.default is not None or field.tag < 0 else f"{value} is None"
    if field.kind == "uuid":
        return f"not {value}.int"
    return f"{value} == {field.default!r}"


def _length_code(field: FieldLayout) -> str:
    return "h" if field.kind == "string" and not field.is_array else "i"
