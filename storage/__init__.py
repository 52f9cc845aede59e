"""The log of one replica on disk."""
