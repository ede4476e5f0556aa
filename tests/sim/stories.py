"""Seeds that once broke a promise, each with its story: `seeds.txt`. They are run first, for ever.

What a seed is depends on all that draws from it, so it may be another world by now; it costs a moment all the same.
"""

from pathlib import Path

FILE = Path(__file__).with_name("seeds.txt")


def read(text: str) -> dict[int, str]:
    """Lines of a seed and its story; lines that begin with # are comments."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            seed, _, story = line.partition(" ")
            found[int(seed)] = story.strip()
    return found


SEEDS = read(FILE.read_text())
