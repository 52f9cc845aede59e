"""Kafka's wire protocol: bytes to messages and back. Pure: no Trio, clock, disk or log."""
