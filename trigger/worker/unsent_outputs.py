"""What handlers have emitted in a chunk, until the worker reports it.

The outputs of each handled event are copied into the shared page. If a later event of the chunk kills the worker, the
pool finds them there, so that earlier events need not be handled again.
"""

import struct
from collections.abc import Sequence

import msgspec

from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.trigger.work import Output

from .emitted import size_of
from .event import Event
from .worker_page import OUTPUTS_END

_SIZE = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Output])


class UnsentOutputs:
    """The outputs of a chunk. Triggers with explicit acknowledgement have `HeldEvents` instead."""

    def __init__(self, page: SharedPage) -> None:
        self._page = page
        self.emitted: list[tuple[Event | None, Output]] = []
        """The outputs, each with the event from which it follows if that is known."""
        self.bytes = 0
        self._kept = 0
        """How many outputs are in the page."""

    def emit(self, event: Event | None, output: Output) -> None:
        """Takes an output."""
        self.emitted.append((event, output))
        self.bytes += size_of(output)

    def forget(self, events: Sequence[Event]) -> None:
        """Forgets what these events have emitted, because their handler has failed."""
        theirs = set(map(id, events))
        self.emitted[self._kept :] = [each for each in self.emitted[self._kept :] if id(each[0]) not in theirs]

    def keep(self) -> bool:
        """Copies the outputs of an event that was handled into the page. Returns False if the page is too small."""
        if self._kept == len(self.emitted):
            return True
        data = _encoder.encode([output for _, output in self.emitted[self._kept :]])
        numbers, content = self._page.numbers, self._page.content
        position = numbers[OUTPUTS_END]
        end = position + _SIZE.size + len(data)
        if end > len(content):
            return False
        content[position:end] = _SIZE.pack(len(data)) + data
        numbers[OUTPUTS_END] = end
        self._kept = len(self.emitted)
        return True

    def take(self) -> tuple[Output, ...]:
        """Returns all outputs, which the worker reports now. They stay in the page until the worker claims the next
        chunk, in case it dies before it has reported them."""
        outputs = tuple([output for _, output in self.emitted])
        self.emitted.clear()
        self.bytes = self._kept = 0
        return outputs


def kept_outputs(page: SharedPage) -> tuple[Output, ...]:
    """Returns the outputs that a worker has copied into its page and not reported, because it has ended."""
    outputs: list[Output] = []
    position, end = 0, page.numbers[OUTPUTS_END]
    while position < end:
        (size,) = _SIZE.unpack_from(page.content, position)
        position += _SIZE.size
        outputs += _decoder.decode(page.content[position : position + size])
        position += size
    return tuple(outputs)
