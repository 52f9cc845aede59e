"""The configuration of a trigger: its values, and how it is read from a decorator, from flags and from YAML. Pure."""
