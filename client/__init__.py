"""Clients that ask servers, by the Kafka protocol and by our own, and return facts. They print nothing."""
