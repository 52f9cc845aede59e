"""Decides for each shard what is handled next, what is retried, and what is marked. Pure."""
