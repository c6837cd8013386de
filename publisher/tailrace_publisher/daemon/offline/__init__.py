"""What commands do with the topics alone: open them, accept a restored database."""
