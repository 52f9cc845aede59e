"""The function of a trigger that only counts its calls."""

from handlers import no_op


def handler(context, event):
    no_op()
