"""What SPUs and the Streaming Controller both know about the cluster. Pure: no Trio, clock, disk or log."""
