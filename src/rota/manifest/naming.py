"""Ids of imported commands: from the file's name and the command, so that another order of the lines changes none."""

import re
from hashlib import sha256
from typing import Final

SLUG_CHARS_MAX: Final = 48
_WORDS: Final = re.compile(r"[A-Za-z0-9._]+")
_SPLIT: Final = re.compile(r"&&|\|\||[;|&(){}\n]|(?<!\S)(?:then|do|else)(?!\S)")
_SUBSTITUTION: Final = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^}]*\}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_REDIRECTION: Final = re.compile(r"[0-9&]*[<>]")
_ASKS: Final = frozenset(
    (
        "if",
        "test",
        "[",
        "[[",
        "cd",
        "command",
        "true",
        "!",
        ".",
        "source",
        "set",
        "export",
        "sleep",
        "elif",
        "while",
        "for",
    )
)
"""What commonly stands before what is meant."""

_WRAPS: Final = frozenset(("nice", "ionice", "nohup", "exec", "env", "sudo", "time", "chronic", "setsid", "eatmydata"))


def slug(command: str) -> str:
    """A few words that tell a command: `[ -x /usr/sbin/dma ] && /usr/sbin/dma -q` is dma-q.

    What had to be cut gets a hash of the whole, so that two long commands keep their own ids.
    """
    words = _main(command)
    text = "-".join(_WORDS.findall(" ".join(words))).strip("._-").lower()
    if not text:
        return _hash(command)
    if len(text) <= SLUG_CHARS_MAX:
        return text
    return f"{text[: SLUG_CHARS_MAX - 9].rstrip('._-')}-{_hash(command)}"


def id_of(name: str, command: str) -> str:
    """The id of a command of a file: its slug behind the file's name, which is not said twice."""
    words = slug(command)
    return words if words == name or words.startswith((f"{name}-", f"{name}.")) else f"{name}-{words}"


def cleaned(name: str) -> str:
    """A name made to begin an id."""
    return "-".join(_WORDS.findall(name)).strip("._-").lower()[:64] or "crontab"


def _main(command: str) -> list[str]:
    """The words of the simple command that is meant, its program without folders, redirections left out."""
    outer = _SUBSTITUTION.sub("", command)
    parts = [words for part in _SPLIT.split(outer) if (words := _bare(part.split()))]
    chosen = next(
        (words for words in parts if words[0].rsplit("/", 1)[-1] not in _ASKS), parts[0] if parts else command.split()
    )
    kept = []
    for word in chosen:
        if _REDIRECTION.match(word):
            break
        kept.append(word.rsplit("/", 1)[-1] if "/" in word and "://" not in word else word)
    return kept


def _bare(words: list[str]) -> list[str]:
    """Without assignments and programs that only run others."""
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif words[0] in _WRAPS:
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
        else:
            break
    return words


def _hash(command: str) -> str:
    return sha256(command.encode("utf-8", "replace")).hexdigest()[:8]
