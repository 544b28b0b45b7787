"""Plan a load, read what came back, and judge it: rates, latencies, acceptance, comparisons. Pure."""
