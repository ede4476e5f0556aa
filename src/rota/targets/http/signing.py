"""The signature of kind `hmac`, for whoever checks it:

    Rota-Signature: t=1764490500,keyid=billing-1,v1=5f3c…

`t` is the time of the call in seconds since 1970. `v1` is HMAC-SHA256 with the shared secret, in lower case hex, over
five lines in UTF-8 that are joined by a line feed, without one at the end:

    v1
    1764490500
    POST
    /invoices?month=11
    47dee…

which are the version, `t`, the method, path and query as they are in the request line, and the SHA-256 of the body's
bytes in lower case hex (that of nothing where there is no body). A receiver computes the same with the secret of
`keyid`, compares in constant time, and refuses a `t` that is more than five minutes away from its own clock.
"""

import hashlib
import hmac
from typing import Final

HEADER: Final = "rota-signature"


def signature(key_id: str, secret: str, at_s: int, method: str, target: str, body: bytes) -> str:
    """The value of the header."""
    lines = ("v1", str(at_s), method, target, hashlib.sha256(body).hexdigest())
    digest = hmac.new(secret.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    return f"t={at_s},keyid={key_id},v1={digest}"
