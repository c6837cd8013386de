"""Work between two batches: compaction, removal of old data, names in a catalog."""
