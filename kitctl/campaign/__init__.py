"""Decide a campaign: what to measure in which order, what is complete, what the figures recommend."""
