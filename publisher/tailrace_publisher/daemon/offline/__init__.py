"""What commands do with the topics alone: open them, reshard, accept a restored database."""
