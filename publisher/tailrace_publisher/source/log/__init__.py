"""What the server says of its log: where it ends, its commits, who wrote it, what was lost."""
