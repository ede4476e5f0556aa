"""Text that may come from anywhere, made fit for the wire."""

import re

_SURROGATES = re.compile("[\ud800-\udfff]")
_CUT = "… (cut)"


def clean(text: str, limit: int) -> str:
    """`text` without NUL, with U+FFFD for lone surrogates, in at most `limit` bytes of UTF-8.

    Never raises. A text that was cut ends with a mark, which counts.
    """
    # A character takes a byte or more, so nothing beyond `limit` characters can survive; 10 MB are not walked.
    whole = len(text) <= limit
    text = text if whole else text[:limit]
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        text = _SURROGATES.sub("�", text)
        data = text.encode()
    if whole and len(data) <= limit:
        return text
    mark = _CUT if limit >= 4 * len(_CUT) else ""
    kept = data[: limit - len(mark.encode())]
    return kept.decode(errors="ignore") + mark
