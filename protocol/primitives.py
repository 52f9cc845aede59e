"""What the compiled codecs are made of: the types of parts, variable-length integers, bounded reads."""

from collections.abc import Sized
from typing import TypeAlias
from uuid import UUID

Buffer: TypeAlias = bytes | bytearray | memoryview

Part: TypeAlias = Sized
"""One piece of an encoded message: a buffer, or whatever was given as `records`, to be sent in that place.

`len(part)` is its size in bytes; storage's file ranges are such parts, and their bytes never pass through here.
"""

Records: TypeAlias = Buffer | Part
"""Record batches: a memoryview of the received frame when decoded, any part when encoded."""

NO_UUID = UUID(int=0)
