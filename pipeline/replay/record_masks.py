"""Masks: change the key, the value, a header, or a field of a JSON value of each record before it is sent.

A mask is a text `PLACE=ACTION`. PLACE is `key`, `value`, `header.NAME`, or a field of the value such as
`value.customer.email`, where `*` stands for every element of a list or every field. ACTION is `drop`, `hash` or
`replace:TEXT`. A hash needs a secret, and keeps equality: equal contents have equal hashes.

A mask that cannot be applied is an error, because the record would be sent with what it should hide.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from tailrace.protocol.batches.records import Record

DROP, HASH, REPLACE = "drop", "hash", "replace"
ANY = "*"
_HASH_CHARACTERS = 32
_FINGERPRINT = b"tailrace replay"


class MaskError(Exception):
    """A mask is wrong, or cannot be applied to a record; the message is one sentence."""

    def __reduce__(self) -> tuple[type["MaskError"], tuple[str]]:
        return type(self), (str(self),)


class Mask(Struct, frozen=True):
    """What is changed, and how."""

    part: str
    """`key`, `value` or `header`."""
    path: tuple[str, ...]
    """The name of the header, or the path of the field; empty for a whole key or value."""
    action: str
    text: str = ""
    """The replacement."""


def parse_mask(text: str) -> Mask:
    """Reads a mask. Raises MaskError."""
    place, equals, action = text.partition("=")
    part, *path = place.split(".")
    kind, colon, replacement = action.partition(":")
    if part == "header" and len(path) > 1:
        path = [".".join(path)]
    is_place = (part == "key" and not path) or part == "value" or (part == "header" and path)
    is_action = kind in (DROP, HASH, REPLACE) and bool(colon) == (kind == REPLACE)
    if not equals or not is_place or not all(path) or not is_action:
        raise MaskError(
            f"{text!r} is no mask: give PLACE=ACTION, where PLACE is key, value, value.FIELD.FIELD or header.NAME, and "
            "ACTION is drop, hash or replace:TEXT"
        )
    return Mask(part, tuple(path), kind, replacement)


def fingerprint(secret: bytes) -> str:
    """Returns a text that tells two secrets apart, and says nothing about them."""
    return _hash(_FINGERPRINT, secret)


class RecordMasks:
    """Applies masks to records."""

    def __init__(self, masks: Iterable[Mask], secret: bytes | None) -> None:
        """Raises MaskError if a mask needs a secret and there is none."""
        self._of_parts: dict[str, list[Mask]] = {}
        for each in masks:
            if each.action == HASH and not secret:
                raise MaskError(
                    "a mask with hash needs a secret, so that guesses cannot be tried: give a file with one"
                )
            self._of_parts.setdefault(each.part, []).append(each)
        self._secret = secret or b""

    def __bool__(self) -> bool:
        return bool(self._of_parts)

    @property
    def uses_secret(self) -> bool:
        """Whether a mask makes hashes."""
        return any(mask.action == HASH for masks in self._of_parts.values() for mask in masks)

    def apply(self, record: Record) -> None:
        """Changes a record. Raises MaskError."""
        for mask in self._of_parts.get("key", ()):
            record.key = self._masked(mask, record.key)
        for mask in self._of_parts.get("header", ()):
            record.headers = self._masked_headers(mask, record.headers)
        fields = []
        for mask in self._of_parts.get("value", ()):
            if mask.path:
                fields.append(mask)
            else:
                record.value = self._masked(mask, record.value)
        if fields and record.value is not None:
            record.value = self._masked_document(fields, record.value)

    def _masked(self, mask: Mask, content: bytes | None) -> bytes | None:
        if content is None or mask.action == DROP:
            return None
        return mask.text.encode() if mask.action == REPLACE else _hash(content, self._secret).encode()

    def _masked_headers(
        self, mask: Mask, headers: Sequence[tuple[str, bytes | None]]
    ) -> list[tuple[str, bytes | None]]:
        if mask.action == DROP:
            return [each for each in headers if each[0] != mask.path[0]]
        return [(name, self._masked(mask, value) if name == mask.path[0] else value) for name, value in headers]

    # JSON: only what lies on the path of a mask is decoded, so that everything else keeps its bytes

    def _masked_document(self, masks: Sequence[Mask], value: bytes) -> bytes:
        try:
            msgspec.json.decode(value)  # a part that is not decoded below must be JSON as well
            value = value.strip()
            for mask in masks:
                value = self._masked_field(mask, mask.path, value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            place = ".".join(("value", *masks[0].path))
            raise MaskError(f"the value is no JSON, so the mask of {place} cannot be applied to it") from None
        return value

    def _masked_field(self, mask: Mask, path: Sequence[str], value: bytes) -> bytes:
        name, *rest = path
        change: Callable[[bytes], bytes | None] = (
            (lambda content: self._masked_field(mask, rest, content))
            if rest
            else (lambda content: self._masked_json(mask, content))
        )
        if value[:1] == b"{":
            fields = msgspec.json.decode(value, type=dict[str, Raw])
            for each in list(fields) if name == ANY else [name] if name in fields else []:
                changed = change(bytes(fields[each]).strip())
                if changed is None:
                    del fields[each]
                else:
                    fields[each] = Raw(changed)
            return msgspec.json.encode(fields)
        if value[:1] == b"[" and name == ANY:
            elements = (change(bytes(each).strip()) for each in msgspec.json.decode(value, type=list[Raw]))
            return msgspec.json.encode([Raw(each) for each in elements if each is not None])
        return value

    def _masked_json(self, mask: Mask, content: bytes) -> bytes | None:
        match mask.action:
            case "drop":
                return None
            case "replace":
                return msgspec.json.encode(mask.text)
        # A text has the same hash as a key or header with this text.
        clear = msgspec.json.decode(content, type=str).encode() if content[:1] == b'"' else content
        return msgspec.json.encode(_hash(clear, self._secret))


def _hash(content: bytes, secret: bytes) -> str:
    return hmac.new(secret, content, hashlib.sha256).hexdigest()[:_HASH_CHARACTERS]
