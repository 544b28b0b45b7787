"""What the machine says: probes and the pure readers of their output."""
