"""Takes the uncompressed kernel out of a bzImage.

QEMU enters an ELF kernel through PVH: the guest then need not unpack itself, which under
emulation saves about three seconds a boot.
"""

import glob
import lzma
import os
import struct
import zlib

SETUP_SECTS = 0x1F1
PAYLOAD_OFFSET = 0x248  # x86 boot protocol 2.08
SECTOR_BYTES = 512


def find(root):
    """Returns (path of the bzImage, kernel version)."""
    images = sorted(glob.glob(os.path.join(root, "boot/vmlinuz-*")))
    if len(images) != 1:
        raise FileNotFoundError(f"expected one kernel in {root}/boot, found {len(images)}")
    return images[0], os.path.basename(images[0]).removeprefix("vmlinuz-")


def _unpack(payload):
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(payload)
    return b""


def extract(bzimage, out):
    """Writes a bootable kernel: the ELF where its compression is known, else the bzImage."""
    with open(bzimage, "rb") as f:
        data = f.read()
    offset, length = struct.unpack_from("<II", data, PAYLOAD_OFFSET)
    start = (data[SETUP_SECTS] + 1) * SECTOR_BYTES + offset
    elf = _unpack(data[start:start + length])
    with open(out, "wb") as f:
        f.write(elf if elf.startswith(b"\x7fELF") else data)
