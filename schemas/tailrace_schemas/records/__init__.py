"""Records of the topics alongside the data: checkpoints, progress, signals and others."""
