"""Handlers of the APIs that write and read records, and the state that only they use."""
