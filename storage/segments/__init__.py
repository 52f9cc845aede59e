"""Segments of a log: write, read, seal, truncate, recover, scrub. May import manifest, indexes and directory."""
