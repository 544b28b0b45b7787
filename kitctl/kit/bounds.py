"""Between which bounds do numbers lie that a person gives, on the command line or in a file?"""

LEAST_SECONDS, MOST_SECONDS = 0.001, 2_000_000
"""The system's calls that wait take a time of at most 2^31 milliseconds."""
MOST_TEMPERATURE = 100
