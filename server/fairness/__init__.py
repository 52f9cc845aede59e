"""Keeps heavy clients from holding up all others: takes turns, reads large requests in steps, and shares memory."""
