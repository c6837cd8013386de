"""The surroundings of the pipeline: as plain processes (local), and described for containers."""
