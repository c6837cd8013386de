"""Where a session begins: fencing, the checkpoint's state, a first start, a lost checkpoint."""
