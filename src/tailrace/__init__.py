"""Tailrace: a Kafka-protocol broker cluster in Python on Trio."""

__version__ = "0.1.0"
