from __future__ import annotations

import pytest

from headrace.followers.address import is_public


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_public(address: str):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1", "192.168.1.1",
        "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::", "::1", "fc00::1", "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:a00:1::1", "2001:db8::1",
        "not an address", "", "127.1", "2130706433",
    ],
)  # fmt: skip
def test_not_public(address: str):
    assert not is_public(address)
