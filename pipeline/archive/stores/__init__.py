"""The places of the head of an archive. May import the layout and the documents of the manifest."""
