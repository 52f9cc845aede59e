"""Handlers of the consumer group APIs."""
