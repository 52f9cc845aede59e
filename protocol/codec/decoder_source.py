"""Writes the source of the function that decodes one version of a message.

Adjacent fields of fixed size, and the length that follows them, are read with one `struct.unpack_from`. Every size is
checked against the end of the input before anything is built, and the elements of arrays against a bound as well. So
the memory of a message is bounded by its size. Strings and bytes are copied; `records` remain a view of the input.
"""

import struct
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tailrace.protocol.error_codes import RemoteProtocolError, TooManyElementsError
from tailrace.protocol.internal_apis import INTERNAL_KEY_MIN

from .message_layout import FieldLayout, StructLayout
from .primitives import FIXED, TAGS_MAX, TOO_MANY_TAGS, TOO_SHORT, rest_of_uvarint, run_unpacker, skip_tagged, uuid_of
from .source import Source

ELEMENTS_MAX = 1_000_000
"""How many elements all arrays of a request may have together, as in Kafka 4.4.

An element of one or two bytes on the wire can become an object of a hundred bytes. Without this bound, a frame of the
largest size would become gigabytes, and block all other clients meanwhile.
"""

STEP_ELEMENTS = 128
"""After how many elements of an array a decoder in steps yields; a power of two."""
_TOO_MANY = "arrays have more elements than the message has bytes, or more than a request may have here"

STRING_BYTES_MAX = 32_767
"""The longest string in a client's request. Versions with classic lengths cannot express a longer one, and a string
that arrives in a newer version is sent to other clients in older versions."""

MALFORMED = (struct.error, IndexError, UnicodeDecodeError)
"""The exceptions inside a decoder that reads beyond the end, or text that is not UTF-8."""


def decoder_source(layout: StructLayout, *, in_steps: bool = False) -> Source:
    """Returns the source of `decode(view, p, elements_max) -> (message, p)`.

    With `in_steps`, `decode` is a generator that returns this at its end. It yields after every few elements, so that
    its caller can do other work.
    """
    source = Source(
        RemoteProtocolError=RemoteProtocolError,
        TooManyElementsError=TooManyElementsError,
        MALFORMED=MALFORMED,
        TOO_MANY_TAGS=TOO_MANY_TAGS,
        TOO_SHORT=TOO_SHORT,
        rest_of_uvarint=rest_of_uvarint,
        skip_tagged=skip_tagged,
        uuid_of=uuid_of,
    )
    reader = _Reader(source, layout.flexible, bounds_strings=_is_from_client(layout.cls), in_steps=in_steps)
    with source.function(f"def decode(view, p, elements_max={ELEMENTS_MAX}):"):
        source.line("end = len(view)")
        source.line("left = end - p if end - p < elements_max else elements_max")
        if in_steps:
            source.line("yield")
        if layout.flexible:
            source.line(f"tags = {TAGS_MAX}")
        with source.block("try:"):
            message = reader.struct(layout)
            source.line(f"return {message}, p")
        with source.block("except MALFORMED as reason:"):
            source.line("raise RemoteProtocolError(f'malformed " + layout.cls.__name__ + ": {reason}') from None")
    return source


class _Reader:
    """Writes the lines that read fields, with adjacent fields of fixed size in one call."""

    def __init__(self, source: Source, flexible: bool, *, bounds_strings: bool, in_steps: bool) -> None:
        self._source = source
        self._in_steps = in_steps
        self._flexible = flexible
        self._bounds_strings = bounds_strings
        self._codes: list[str] = []
        self._targets: list[str] = []

    # adjacent fields of fixed size, which wait until something else has to be read

    def _fixed(self, code: str, target: str) -> None:
        self._codes.append(code)
        self._targets.append(target)

    def _flush(self) -> None:
        if self._codes:
            codes = "".join(self._codes)
            if codes == "B":
                self._source.line(f"{self._targets[0]} = view[p]")
            else:
                unpack = self._source.name("unpack", f"unpack {codes}", struct.Struct(">" + codes).unpack_from)
                self._source.line(f"{', '.join(self._targets)}, = {unpack}(view, p)")
            self._source.line(f"p += {struct.calcsize('>' + codes)}")
            self._codes, self._targets = [], []

    def _length(self, code: str) -> str:
        """Reads a length. Returns the variable that holds it; in the compact encoding, it holds the length plus one."""
        length = self._source.fresh("n")
        self._fixed("B" if self._flexible else code, length)
        self._flush()
        if self._flexible:
            with self._source.block(f"if {length} > 127:"):
                self._source.line(f"{length}, p = rest_of_uvarint(view, p, {length})")
                if code == "h" and self._bounds_strings:
                    with self._source.block(f"if {length} > {STRING_BYTES_MAX + 1}:"):
                        self._fail(f"a string of more than {STRING_BYTES_MAX} bytes")
        return length

    # structs

    def struct(self, layout: StructLayout) -> str:
        """Reads all fields. Returns the expression that builds the struct."""
        values = {field.name: self._field(field) for field in layout.fields}
        if layout.flexible:
            values |= self._tagged_section(layout.tagged_fields)
        self._flush()
        for field in layout.fields:
            if field.is_fixed and field.kind == "uuid":
                values[field.name] = f"uuid_of({values[field.name]})"
        cls = self._source.name(layout.cls.__name__, f"class {layout.cls.__qualname__}", layout.cls)
        arguments = (values.get(name) or self._default(name, default) for name, default in layout.attributes)
        return f"{cls}({', '.join(arguments)})"

    def _default(self, name: str, default: Any) -> str:
        if default is list:
            return "[]"
        if isinstance(default, type):
            return f"{self._source.name(default.__name__, f'class {default.__qualname__}', default)}()"
        if default is None or isinstance(default, (bool, int, float, str, bytes)):
            return repr(default)
        return self._source.name("default", f"default {name}", default)

    def _tagged_section(self, fields: tuple[FieldLayout, ...]) -> dict[str, str]:
        targets = {field.name: self._source.fresh("v") for field in fields}
        if not fields:
            count = self._source.fresh("n")
            self._fixed("B", count)
            self._flush()
            with self._source.block(f"if {count}:"):
                self._source.line(f"p, tags = skip_tagged(view, p, {count}, tags)")
            return targets
        count = self._length("")
        for field in fields:
            self._source.line(f"{targets[field.name]} = {self._default(field.name, field.default)}")
        self._source.line(f"tags -= {count}")
        with self._source.block("if tags < 0:"):
            self._source.line("raise RemoteProtocolError(TOO_MANY_TAGS)")
        with self._source.block(f"for _ in range({count}):"):
            tag, size, stop = self._length(""), self._length(""), self._source.fresh("stop")
            self._source.line(f"{stop} = p + {size}")
            self._check_end(stop)
            for field in fields:
                with self._source.block(f"if {tag} == {field.tag}:"):
                    value = self._field(field)
                    self._flush()
                    self._source.line(f"{targets[field.name]} = {_finished(field, value)}")
                    with self._source.block(f"if p != {stop}:"):
                        self._fail("a tagged field has another size than its length says")
            self._source.line(f"p = {stop}")
        return targets

    # fields: each method returns the expression for the value, which is valid after `_flush`

    def _field(self, field: FieldLayout) -> str:
        if field.is_array:
            return self._array(field)
        if isinstance(field.kind, StructLayout):
            return self._nested(field)
        if field.kind in FIXED:
            target = self._source.fresh("v")
            self._fixed(FIXED[field.kind], target)
            return target
        return self._sized(field)

    def _nested(self, field: FieldLayout) -> str:
        assert isinstance(field.kind, StructLayout)
        self._flush()
        target = self._source.fresh("v")
        if not field.nullable:
            self._source.line(f"{target} = {self.struct(field.kind)}")
            return target
        self._fixed("b", target)
        self._flush()
        with self._source.block(f"if {target} < {1 if field.tag >= 0 else 0}:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._source.line(f"{target} = {self.struct(field.kind)}")
        return target

    def _sized(self, field: FieldLayout) -> str:
        """Reads a string, bytes or records."""
        length = self._length("h" if field.kind == "string" else "i")
        target, stop = self._source.fresh("v"), self._source.fresh("stop")
        content = {
            "string": f"view[p:{stop}].tobytes().decode('utf-8', 'replace')",
            "bytes": f"view[p:{stop}].tobytes()",
            "records": f"view[p:{stop}]",
        }[str(field.kind)]
        with self._null(field, length, target):
            self._source.line(f"{stop} = p + {length}{' - 1' if self._flexible else ''}")
            self._check_end(stop)
            self._source.line(f"{target} = {content}")
            self._source.line(f"p = {stop}")
        return target

    def _array(self, field: FieldLayout) -> str:
        length = self._length("i")
        target = self._source.fresh("v")
        with self._null(field, length, target):
            if self._flexible:
                self._source.line(f"{length} -= 1")
            self._elements(field, length, target)
        return target

    def _elements(self, field: FieldLayout, length: str, target: str) -> None:
        self._source.line(f"left -= {length}")
        with self._source.block("if left < 0:"):
            self._source.line(f"raise TooManyElementsError({_TOO_MANY!r})")
        if isinstance(field.kind, str) and field.kind in FIXED and field.kind != "uuid":
            run = self._source.name("run", f"run {field.kind}", run_unpacker(FIXED[field.kind]))
            self._source.line(f"{target} = {run}(view, p, {length})")
            self._source.line(f"p += {length} * {struct.calcsize('>' + FIXED[field.kind])}")
            return
        self._source.line(f"{target} = []")
        with self._source.block(f"while {length}:"):  # cheaper than a range for the one or two elements of most arrays
            self._source.line(f"{length} -= 1")
            if self._in_steps:
                with self._source.block(f"if not {length} & {STEP_ELEMENTS - 1}:"):
                    self._source.line("yield")
            if isinstance(field.kind, StructLayout):
                element = self.struct(field.kind)
            else:
                element_field = FieldLayout("", field.kind, is_array=False, nullable=False, tag=-1, default=None)
                element = self._field(element_field)
                self._flush()
                element = _finished(element_field, element)
            self._source.line(f"{target}.append({element})")

    def _null(self, field: FieldLayout, length: str, target: str) -> AbstractContextManager[None]:
        """Handles a length that means null. The lines written inside the `with` read a value that is not null."""
        with self._source.block(f"if {length} == 0:" if self._flexible else f"if {length} < 0:"):
            if not field.nullable:
                self._fail(f"{field.name or 'an element'} cannot be null")
                return nullcontext()
            self._source.line(f"{target} = None")
        return self._source.block("else:")

    def _check_end(self, stop: str) -> None:
        with self._source.block(f"if {stop} > end:"):
            self._source.line("raise RemoteProtocolError(TOO_SHORT)")

    def _fail(self, reason: str) -> None:
        self._source.line(f"raise RemoteProtocolError({reason!r})")


def _is_from_client(cls: type[Any]) -> bool:
    """Whether the message is a request of a client. Messages between our own programs may have longer strings."""
    return cls.__name__.endswith("Request") and getattr(cls, "API_KEY", INTERNAL_KEY_MIN) < INTERNAL_KEY_MIN


def _finished(field: FieldLayout, value: str) -> str:
    return f"uuid_of({value})" if field.is_fixed and field.kind == "uuid" else value
