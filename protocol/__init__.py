"""Bytes to messages and back: pure, no I/O, no clock."""
