"""`tailrace status` and `tailrace doctor`: what runs, what is wrong, and what to do.

May import clients, options and output.
"""
