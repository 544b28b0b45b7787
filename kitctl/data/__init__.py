"""Data files: known failures, engine rules, flag tables, GPU facts."""
