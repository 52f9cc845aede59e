"""Compiles encoders and decoders: one function for each message class and version, on first use.

A broker uses perhaps a dozen of the hundreds of combinations, so that each function is made when it is needed, from the
facts in its class. A compiled function (see `encoder_source` and `decoder_source`) is several times faster than code
that walks over the facts for each message.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from .decoder_source import ELEMENTS_MAX, decoder_source
from .encoder_source import encoder_source
from .message_layout import message_layout
from .primitives import Buffer, Part

Message = TypeVar("Message")
Encoder: TypeAlias = Callable[[Any, list[Part]], None]


class Decoder(Protocol):
    """The type of a compiled function that reads a message."""

    def __call__(self, view: memoryview, position: int, elements_max: int = ..., /) -> tuple[Any, int]:
        """Reads a message at a position. Returns the message and the position after it. Raises RemoteProtocolError.

        `elements_max` bounds the elements of all its arrays together. The default is the bound for requests.
        """


Steps: TypeAlias = Generator[None, None, tuple[Any, int]]
"""The steps of reading a message. The generator returns what a decoder returns."""


class StepDecoder(Protocol):
    """The type of a compiled function that reads a message in steps, for messages with very many elements."""

    def __call__(self, view: memoryview, position: int, elements_max: int, /) -> Steps:
        """Reads a message like a `Decoder`, but in steps."""


def _compile_encoder(cls: type[Any], version: int) -> Encoder:
    encode: Encoder = encoder_source(message_layout(cls, version)).run(f"encode {cls.__name__} {version}")["encode"]
    return encode


def _compile_decoder(cls: type[Any], version: int) -> Decoder:
    decode: Decoder = decoder_source(message_layout(cls, version)).run(f"decode {cls.__name__} {version}")["decode"]
    return decode


def _compile_step_decoder(cls: type[Any], version: int) -> StepDecoder:
    source = decoder_source(message_layout(cls, version), in_steps=True)
    decode: StepDecoder = source.run(f"decode {cls.__name__} {version} in steps")["decode"]
    return decode


_encoder = cast(Callable[[type[Any], int], Encoder], cache(_compile_encoder))
_decoder = cast(Callable[[type[Any], int], Decoder], cache(_compile_decoder))
_step_decoder = cast(Callable[[type[Any], int], StepDecoder], cache(_compile_step_decoder))


def encoder(cls: type[Any], version: int) -> Encoder:
    """Returns the function that appends the parts of a message to a list. `records` become parts without being
    copied."""
    return _encoder(cls, version)


def decoder(cls: type[Any], version: int) -> Decoder:
    """Returns the function that reads a message of the class."""
    return _decoder(cls, version)


def step_decoder(cls: type[Any], version: int) -> StepDecoder:
    """Returns the function that reads a message of the class in steps."""
    return _step_decoder(cls, version)


def encode(message: object, version: int) -> list[Part]:
    """Encodes a message into parts."""
    parts: list[Part] = []
    _encoder(type(message), version)(message, parts)
    return parts


def encode_whole(message: object, version: int) -> bytes:
    """Encodes a message whose parts are all bytes, and not ranges of a file."""
    return b"".join(bytes(part) for part in encode(message, version) if isinstance(part, Buffer))


def decode(
    cls: type[Message], version: int, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX
) -> Message:
    """Reads the message at `position`. Bytes after it are ignored, as in Apache Kafka."""
    message: Message = _decoder(cls, version)(memoryview(data), position, elements_max)[0]
    return message
