"""The function of a trigger that computes for 100 µs."""

from handlers import busy


def handler(context, event):
    busy()
