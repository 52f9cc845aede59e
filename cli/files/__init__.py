"""`tailrace log …`: reads files on the disk, without a server. May import output."""
