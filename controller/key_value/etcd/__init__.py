"""The key-value store in etcd: calls, messages, watches. May import the interface of key_value."""
