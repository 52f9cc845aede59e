"""Handlers of the group APIs, which ask the coordinator of a group and wait for its answer."""
