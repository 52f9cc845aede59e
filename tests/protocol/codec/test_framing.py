import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.error_codes import RemoteProtocolError


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def all_frames(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(frame)
    return frames


@given(frames=st.lists(st.binary(max_size=50), max_size=8), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_frames_are_restored_however_the_stream_is_split(frames: list[bytes], cuts: list[int]) -> None:
    stream = framed(*frames)
    buffer = FrameBuffer(frame_bytes_max=50)
    seen = []
    position = 0
    for cut in [*sorted(cuts), len(stream)]:
        buffer.feed(stream[position : max(cut, position)])
        position = max(cut, position)
        seen += all_frames(buffer)
    assert seen == frames
    assert buffer.held_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 51, 2**31 - 1])
def test_an_impossible_size_is_refused_before_the_frame_arrives(size: int) -> None:
    buffer = FrameBuffer(frame_bytes_max=50)
    buffer.feed(size.to_bytes(4, "big", signed=True))
    with pytest.raises(RemoteProtocolError, match=f"{size} bytes"):
        buffer.next_frame()


def test_frames_that_were_taken_are_not_held() -> None:
    buffer = FrameBuffer(frame_bytes_max=50)
    for _ in range(3):
        buffer.feed(framed(b"x" * 50) + b"\0")
        assert buffer.next_frame() == b"x" * 50
        assert buffer.held_bytes == 1
        buffer.feed(b"\0\0\x01y")
        assert buffer.next_frame() == b"y"
        assert buffer.held_bytes == 0
