"""Commands that show and change the objects of the Streaming Controller. May import clients, options and output."""
