"""Writes the audit log of a server: what happened, who did it, and whether it was allowed."""
