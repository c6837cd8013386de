"""From progress records to cuts and batches: which offsets, in which order. Pure."""
