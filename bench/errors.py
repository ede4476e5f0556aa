"""How a run fails."""


class BenchError(Exception):
    """A run that came to nothing; the message says what was expected, what was found, what to look at."""
