"""Triggers and the state objects of streams: which replicas should run, and how old the heartbeats of members are.

All decisions are pure. `kept_replicas.py` carries them out, with the supervision of processes in `spus`.
"""
