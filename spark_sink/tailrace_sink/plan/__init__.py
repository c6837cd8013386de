"""Plans of cuts and batches from progress records: which offsets, in which order. Pure."""
