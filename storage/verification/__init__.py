"""Checks every byte of a data directory, offline. May import every room except the log."""
