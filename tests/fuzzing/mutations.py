"""Changes valid bytes so that they are almost right: lengths, counts, ends, and pieces of other messages."""

from collections.abc import Sequence
from random import Random

TELLING = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x00\x00",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x00\x0f\x42\x41",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80",
    b"\xc1\x84\x3d",
    b"\x91\x4e",
    b"\xff" * 16,
    b"\x00" * 16,
)
"""The bytes that mean something as a length, a count, a null or a bound."""

CHANGES_MAX = 4


def mutant(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Returns `data` with one or a few changes. `others` are messages whose pieces may be inserted."""
    for _ in range(1 + int(random.random() ** 3 * CHANGES_MAX)):
        data = _changed(random, data, others)
    return data


def _changed(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    chance = random.random
    place = int(chance() * (len(data) + 1))
    match int(chance() * 11):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + TELLING[int(chance() * len(TELLING))] + data[place:]
        case 2 | 3:
            telling = TELLING[int(chance() * len(TELLING))]
            return data[:place] + telling + data[place + len(telling) :]
        case 4:
            return data[:place] + random.randbytes(1 + int(chance() * 8)) + data[place + 1 :]
        case 5:  # a bit
            if place < len(data):
                return data[:place] + bytes((data[place] ^ 1 << int(chance() * 8),)) + data[place + 1 :]
            return data + b"\x80"
        case 6:  # a number that is one larger or smaller
            if place < len(data):
                return data[:place] + bytes((data[place] + (1 if chance() < 0.5 else 255) & 255,)) + data[place + 1 :]
            return data + data
        case 7:  # left out
            return data[:place] + data[place + 1 + int(chance() * 16) :]
        case 8:  # repeated
            stop = place + 1 + int(chance() * 32)
            return data[:stop] + data[place:stop] * int(1 + chance() * 8) + data[stop:]
        case 9:  # the end of another message
            other = others[int(chance() * len(others))]
            return data[:place] + other[int(chance() * (len(other) + 1)) :]
        case _:  # a piece of another message
            other = others[int(chance() * len(others))]
            begin = int(chance() * (len(other) + 1))
            return data[:place] + other[begin : begin + int(chance() * 64)] + data[place:]
