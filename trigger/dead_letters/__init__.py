"""Records of dead letters and of retries: how they are made from a failed record, and read back. Pure."""
