"""One configuration for the whole pipeline: file, environment and flags."""
