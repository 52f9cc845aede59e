"""kafka-python's codec encodes the same bytes as ours, for every message and version."""

import functools
import importlib.resources
import warnings
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_samples import all_messages, sample, versions_of

from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.codec.fields import Field, Versions
from tailrace.protocol.codec.primitives import NO_UUID

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.api_data import ApiData, JsonSchemaData
    from kafka.protocol.api_message import ApiMessage, ApiMessageData

pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")


THEIR_SCHEMAS = importlib.resources.files("kafka.protocol.schemas.resources")
SHARED_MESSAGES = [cls for cls in all_messages() if THEIR_SCHEMAS.joinpath(f"{cls.__name__}.json").is_file()]


@functools.cache
def their_class(cls: type[Any]) -> Any:
    """Makes classes from the JSON, because those that kafka-python exports have some patched fields."""
    if hasattr(cls, "API_KEY"):
        return ApiMessageData(cls.__name__, (ApiMessage,), {})
    return JsonSchemaData(cls.__name__, (ApiData,), {})


def to_theirs(message: Any, their: Any, version: int) -> Any:
    """Converts our message into one of kafka-python. It does not set a tagged field to its default, because it would
    send it."""
    values = {}
    for field, their_field in zip(type(message).FIELDS, their._struct.fields.values(), strict=True):
        value = getattr(message, field.name)
        if not Versions.parse(field.versions).holds(version) or (field.tag >= 0 and is_default(message, field, value)):
            continue
        values[their_field.name] = element_to_theirs(field, value, their_field, version)
    return their(version=version, **values)


def element_to_theirs(field: Field, value: Any, their_field: Any, version: int) -> Any:
    if isinstance(field.kind, str) or value is None:
        return value
    if field.array:
        return [to_theirs(element, their_field.data_class, version) for element in value]
    return to_theirs(value, their_field.data_class, version)


def is_default(message: Any, field: Field, value: Any) -> bool:
    return bool(value == getattr(type(message)(), field.name))


def to_ours(their: Any, cls: type[Any], version: int) -> Any:
    values = {}
    for field, their_field in zip(cls.FIELDS, their._struct.fields.values(), strict=True):
        if Versions.parse(field.versions).holds(version):
            value = getattr(their, their_field.name)
            is_struct = not isinstance(field.kind, str) and not field.array
            if field.tag >= 0 and is_struct and their_field.name not in (their.tags or ()):
                value = None
            values[field.name] = element_to_ours(field, value, version)
    return cls(**values)


def element_to_ours(field: Field, value: Any, version: int) -> Any:
    if field.kind == "uuid" and value is None:
        return NO_UUID  # what kafka-python makes of a UUID of zeros
    if isinstance(field.kind, str) or value is None:
        return value
    if field.array:
        return [to_ours(element, field.kind, version) for element in value]
    return to_ours(value, field.kind, version)


@pytest.mark.parametrize("cls", SHARED_MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_kafka_python_encodes_the_same_bytes_and_reads_ours(cls: type[Any], seed: int) -> None:
    their = their_class(cls)
    # kafka-python encodes data inside other messages with its version before it.
    header = {} if hasattr(cls, "API_KEY") else {"header": False}
    for version in versions_of(cls):
        ours = sample(cls, version, Random(seed))
        data = b"".join(encode(ours, version))  # type: ignore[arg-type]
        theirs = to_theirs(ours, their, version)
        assert bytes(theirs.encode(**header)) == data
        assert to_ours(their.decode(data, version=version, **header), cls, version) == ours
        assert decode(cls, version, theirs.encode(**header)) == ours


def test_every_message_of_kafka_python_is_compared() -> None:
    assert len(SHARED_MESSAGES) >= 2 * 52
