"""What users write against: the decorator, events and contexts, and the loading of their files."""
