"""Reference pages, written from the code: options, errors, events, metrics."""
