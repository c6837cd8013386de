"""One encoder for each column, by its type and the options of its values."""
