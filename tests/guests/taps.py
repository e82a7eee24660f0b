"""Taps on a bridge: a wire for NICs of several queues and for packets that are not cut.

QEMU's socket wires have one queue and carry no such packets.
"""

import ctypes
import os
import subprocess

COMMAND_TIMEOUT_S = 20
CLONE_NEWNET = 0x40000000
NO_IPV6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"


def name_of(guest):
    return f"tap-{guest}"


def make(guests, queues):
    """Makes a tap for each guest, in a new network namespace that this process enters.

    `queues`: of each tap. The namespace has no name: it ends, taps included, with the last process
    in it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace for the taps")
    # Nothing but the guests shall send on the wire.
    if os.path.exists(NO_IPV6):
        with open(NO_IPV6, "w", encoding="utf-8") as f:
            f.write("1")
    _ip("link", "add", "wire", "type", "bridge")
    _ip("link", "set", "wire", "up")
    for guest in guests:
        tap = name_of(guest)
        several = ["multi_queue"] if queues > 1 else []
        _ip("tuntap", "add", tap, "mode", "tap", *several, "vnet_hdr")
        _ip("link", "set", tap, "master", "wire", "up")


def _ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=COMMAND_TIMEOUT_S)
