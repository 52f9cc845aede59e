"""Decisions about topics: which SPUs hold their replicas. Pure; may import state and spus."""
