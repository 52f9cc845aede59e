"""Handlers of administrative APIs: most forward the request to the Streaming Controller."""
