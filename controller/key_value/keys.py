"""Keys as the stores on the disk have them: bytes in UTF-8, whose order is that of the text."""


def end_of_prefix(prefix: bytes) -> bytes:
    """The first key after all that begin with the prefix, which is not empty; no byte of UTF-8 is the last one, 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
