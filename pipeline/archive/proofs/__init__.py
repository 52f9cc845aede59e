"""Proves that an archive has every committed record exactly once."""
