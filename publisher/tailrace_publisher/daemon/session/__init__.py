"""One life of the publisher: poll, stream, commit, snapshot; the conductor starts the next one."""
