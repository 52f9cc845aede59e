"""Looks after an archive: shows what it has, merges small chunks, and removes files that do not count."""
