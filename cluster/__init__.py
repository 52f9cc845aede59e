"""What SPUs and the Streaming Controller both know of the cluster: specs, configs, names, plans."""
