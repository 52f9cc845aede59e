"""Keeps heavy clients from holding up all others: who takes turns with whom, and how large requests are read."""
