"""The signature of a webhook: that the body comes from who has the secret, and when it was sent.

    Headrace-Signature: t=1767225600,v1=5f2c…

`v1` is the HMAC-SHA256, in hex, of the seconds, a full stop and the body. A receiver computes it with its own copy of
the secret, compares in constant time, and refuses what is old, so that a recorded request cannot be sent again later.
"""

from __future__ import annotations

import hmac
import re
import time

HEADER = "Headrace-Signature"
_FORM = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})", re.ASCII)


def sign(secret: str, body: bytes, at: int) -> str:
    """The value of the header for a body sent at this second."""
    return f"t={at},v1={_mac(secret, body, at)}"


def verify(secret: str, header: str, body: bytes, *, tolerance_s: float = 300, now: float | None = None) -> bool:
    """Whether the header is of this body and secret, and not older (or younger) than `tolerance_s`."""
    found = _FORM.fullmatch(header)
    if found is None or abs((time.time() if now is None else now) - int(found[1])) > tolerance_s:
        return False
    return hmac.compare_digest(_mac(secret, body, int(found[1])), found[2])


def _mac(secret: str, body: bytes, at: int) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, "sha256").hexdigest()
