"""The initial snapshot: keyset chunks between fences."""
