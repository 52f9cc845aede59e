"""Decides which shards a member of a consumer group handles, and until when it may. Pure."""
