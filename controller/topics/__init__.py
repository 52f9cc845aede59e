"""Decisions about topics: which SPUs hold their replicas. Pure. May import state and spus."""
