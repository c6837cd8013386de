"""The pages: HTML from the model. Pure."""
