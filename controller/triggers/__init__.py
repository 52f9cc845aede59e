"""Triggers and the state objects of streams: who handles which shards, and how old the heartbeats are. Pure."""
