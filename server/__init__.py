"""Serves Kafka's protocol to clients; SPUs and the Streaming Controller are its hosts."""
