"""What the SC knows: events, actions, the local copy of the store, reports of SPUs. Pure; may import objects and
the interface of key_value.
"""
