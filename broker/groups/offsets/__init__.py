"""Committed offsets: stored, fetched, expired. Pure; may import common."""
