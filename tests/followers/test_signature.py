from __future__ import annotations

import hashlib
import hmac

import pytest

from headrace.followers.signature import sign, verify

BODY = b'{"row":null}'


def test_a_receiver_can_compute_it_by_hand():
    expected = hmac.new(b"sesame", b"1767225600." + BODY, hashlib.sha256).hexdigest()
    assert sign("sesame", BODY, 1_767_225_600) == f"t=1767225600,v1={expected}"


def test_what_is_right_and_fresh_is_accepted():
    header = sign("sesame", BODY, 1000)
    assert verify("sesame", header, BODY, now=1000)
    assert verify("sesame", header, BODY, now=1300)
    assert verify("sesame", header, BODY, now=700)


@pytest.mark.parametrize("now", [1301, 699])
def test_what_is_old_or_from_the_future_is_not(now: float):
    assert not verify("sesame", sign("sesame", BODY, 1000), BODY, now=now)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1000",
        "v1=abc",
        sign("other", BODY, 1000),
        sign("sesame", BODY + b" ", 1000),
        sign("sesame", BODY, 1000).upper(),
        sign("sesame", BODY, 1000) + "\n",
        sign("sesame", BODY, 1000).replace("t=1000", "t=1001"),
    ],
)
def test_what_is_wrong_is_not(header: str):
    assert not verify("sesame", header, BODY, now=1000)
