"""Decisions about SPUs and SPU groups, and the provisioner that runs managed SPUs. May import state."""
