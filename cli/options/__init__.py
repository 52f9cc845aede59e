"""Options and conventions that several command families share. May import clients and output."""
