"""The Internet checksum (RFC 1071)."""

import struct


def checksum(data):
    """0 for data that contains its own right checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff
