"""Random messages of any class and version, made from the facts in the classes."""

import importlib
import pkgutil
from random import Random
from typing import Any
from uuid import UUID

import tailrace.protocol.group_records
import tailrace.protocol.internal
import tailrace.protocol.messages
import tailrace.protocol.transaction_records
from tailrace.protocol.codec.fields import Field, Versions

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def all_messages() -> list[type[Any]]:
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for package in (
            tailrace.protocol.messages,
            tailrace.protocol.internal,
            tailrace.protocol.group_records,
            tailrace.protocol.transaction_records,
        )
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return [value for module in modules for value in vars(module).values() if hasattr(value, "VERSIONS")]


def all_requests() -> list[type[Any]]:
    return [message for message in all_messages() if message.__name__.endswith("Request")]


def versions_of(cls: type[Any]) -> range:
    versions = Versions.parse(cls.VERSIONS)
    return range(versions.first, versions.last + 1)


def sample(cls: type[Any], version: int, random: Random) -> Any:
    """Makes a message, or a struct, with a random value in each field of the version."""
    return cls(
        **{
            field.name: _value(field, version, random)
            for field in cls.FIELDS
            if Versions.parse(field.versions).holds(version) and not _is_left_out(field, version, random)
        }
    )


def _is_left_out(field: Field, version: int, random: Random) -> bool:
    return Versions.parse(field.tagged).holds(version) and random.random() < 0.5


def _value(field: Field, version: int, random: Random) -> Any:
    if Versions.parse(field.nullable).holds(version) and random.random() < 0.25:
        return None
    if field.array:
        return [_element(field.kind, version, random) for _ in range(_length(random, isinstance(field.kind, str)))]
    return _element(field.kind, version, random)


def _length(random: Random, elements_are_small: bool) -> int:
    """Returns a length: mostly small, sometimes too large for one byte of a variable-length integer."""
    if elements_are_small and random.random() < 0.05:
        return random.choice((125, 126, 127, 128, 300))
    return random.choice((0, 1, 1, 2, 3))


def _element(kind: str | type, version: int, random: Random) -> Any:
    if not isinstance(kind, str):
        return sample(kind, version, random)
    match kind:
        case "bool":
            return random.random() < 0.5
        case "uint16":
            return random.randrange(2**16)
        case "uint32":
            return random.randrange(2**32)
        case "float64":
            return random.choice((0.0, -1.5, 1e300, float("inf")))
        case "string":
            return "".join(random.choices("aZ0-é日𝄞", k=_length(random, True)))
        case "bytes" | "records":
            return random.randbytes(_length(random, True))
        case "uuid":
            return UUID(int=random.choice((0, random.getrandbits(128))))
    bits = _INTEGER_BITS[kind]
    return random.choice((0, 1, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, random.randrange(2 ** (bits - 1))))
