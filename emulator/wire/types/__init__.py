"""One family of TDS types per file: type information, decoding, encoding."""
