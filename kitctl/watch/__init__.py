"""Judge what runs: engine log lines, health, failures, timings."""
