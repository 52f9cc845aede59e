"""The state object of a stream: the consumer groups that read it, their members and their shards. Pure."""
