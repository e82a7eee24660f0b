#!/usr/bin/env python3
"""A client that breaks the rules until it is ended: it writes noise into the memory that it shares
with a daemon, and onto its control socket, and comes back when it is disconnected.

usage: scribbler.py SOCKET SEED
"""

import contextlib
import mmap
import os
import random
import socket
import struct
import sys
import time

from raw_attach import FIRST_BELL, MEMORY, attach

# Header and rings lie at the front of a context's memory.
RINGS_BYTES = 256 << 10
WORDS_PER_ROUND = 64
ROUNDS_MAX = 50
PAUSE_S = 0.002


def is_hung_up(connection):
    try:
        return connection.recv(256, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def scribble(path, choose):
    """Attaches, and writes into header and rings until the daemon has enough."""
    connection, descriptors = attach(path, b"scribbler")
    try:
        if len(descriptors) <= FIRST_BELL:
            return
        with mmap.mmap(descriptors[MEMORY], RINGS_BYTES) as memory:
            for _ in range(ROUNDS_MAX):
                for _ in range(WORDS_PER_ROUND):
                    # Small numbers are operations, indices and lengths.
                    word = choose.choice((choose.getrandbits(32), choose.getrandbits(5)))
                    struct.pack_into("<I", memory, 4 * choose.randrange(RINGS_BYTES // 4), word)
                with contextlib.suppress(OSError):
                    os.eventfd_write(descriptors[FIRST_BELL], 1)
                if is_hung_up(connection):
                    return
                time.sleep(PAUSE_S)
    finally:
        connection.close()
        for descriptor in descriptors:
            os.close(descriptor)


def talk_nonsense(path, choose):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        with contextlib.suppress(OSError):
            connection.send(choose.randbytes(choose.randrange(1, 200)))
        time.sleep(PAUSE_S)


def main():
    path, choose = sys.argv[1], random.Random(int(sys.argv[2]))
    while True:
        try:
            choose.choice((scribble, scribble, talk_nonsense))(path, choose)
        except OSError:
            time.sleep(0.05)  # the daemon is away


if __name__ == "__main__":
    main()
