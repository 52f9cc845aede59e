"""The key-value store on etcd: gateway calls, messages, watches."""
