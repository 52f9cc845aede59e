"""The error of this package."""


class BrokerError(Exception):
    """The broker did not start, has ended, or refused a request; the message says why."""
