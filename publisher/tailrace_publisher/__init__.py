"""From change tables to topics: source, change, encode, deliver, checkpoint, snapshot, daemon."""
