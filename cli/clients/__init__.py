"""Clients that ask servers and return facts. They print nothing and import no other room."""
