"""Kafka's wire protocol: turns bytes into messages and back. It is pure: no Trio, clock, disk or log."""
