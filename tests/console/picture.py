"""Screenshots made small: a PNG of Chromium with at most 256 colours, those that it has most of.

A page has few colours, and many between them at the edges of letters; each of those takes the nearest that is kept.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_HEAD = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
Colour = tuple[int, int, int]


def smaller(png: bytes) -> bytes:
    """The same picture with a palette."""
    chunks = list(_chunks(png))
    width, height, _, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    lines = list(_lines(data, width, height, _CHANNELS[kind]))
    counts = Counter(colour for line in lines for colour in line)
    kept = [colour for colour, _ in counts.most_common(256)]
    index = {colour: _nearest(colour, kept) for colour in counts}
    packed = b"".join(b"\0" + bytes(index[colour] for colour in line) for line in lines)
    return b"".join(
        (
            _HEAD,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(bytes(colour) for colour in kept)),
            _chunk(b"IDAT", zlib.compress(packed, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _nearest(colour: Colour, kept: list[Colour]) -> int:
    r, g, b = colour
    return min(range(len(kept)), key=lambda i: (kept[i][0] - r) ** 2 + (kept[i][1] - g) ** 2 + (kept[i][2] - b) ** 2)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_HEAD)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _lines(data: bytes, width: int, height: int, channels: int) -> Iterator[list[Colour]]:
    """The colours line by line, with PNG's filters undone."""
    size = width * channels
    above = bytearray(size)
    for y in range(height):
        start = y * (size + 1)
        line = bytearray(data[start + 1 : start + 1 + size])
        _undo(data[start], line, above, channels)
        above = line
        yield list(zip(line[0::channels], line[1::channels], line[2::channels], strict=True))


def _undo(kind: int, line: bytearray, above: bytearray, back: int) -> None:
    if kind == 0:
        return
    for i in range(len(line)):
        a, b, c = (line[i - back], above[i], above[i - back]) if i >= back else (0, above[i], 0)
        if kind == 1:
            guess = a
        elif kind == 2:
            guess = b
        elif kind == 3:
            guess = (a + b) >> 1
        else:
            to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
            guess = a if to_a <= to_b and to_a <= to_c else b if to_b <= to_c else c
        line[i] = (line[i] + guess) & 255
