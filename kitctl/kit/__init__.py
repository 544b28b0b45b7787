"""What the repository says: stacks, overlays, pin sets, the model lock."""
