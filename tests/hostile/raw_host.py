"""A host on a wire that has no kernel: every frame of it is written by hand, over AF_PACKET."""

import ctypes
import ipaddress
import select
import socket
import struct
import time
from dataclasses import dataclass

from internet_checksum import checksum

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETH_IPV4, ETH_ARP = 0x0800, 0x0806
ETH_P_ALL = 3
ICMP, TCP = 1, 6
STEP_TIMEOUT_S = 60
RECEIVE_BUFFER_BYTES = 8 << 20
SO_ATTACH_FILTER = 26
MSS_DEFAULT = 1460
# MSS, SACK permitted, window scale 14; no timestamps, so that each segment is a few bytes.
WINDOW_SCALE = 14


def packed(address):
    return ipaddress.ip_address(address).packed


def ipv4(source, target, protocol, payload):
    """A packet; addresses are packed."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                         source, target)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def tcp(source, target, ports, seq, ack, flags, window=65535, options=b"", text=b""):
    """A packet. `ports`: of the source and the target."""
    header = struct.pack("!HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                         (20 + len(options)) // 4 << 4, flags, window, 0, 0) + options
    pseudo = source + target + struct.pack("!HH", TCP, len(header) + len(text))
    total = checksum(pseudo + header + text)
    return ipv4(source, target, TCP, header[:16] + struct.pack("!H", total) + header[18:] + text)


def syn_options(mss=MSS_DEFAULT):
    return struct.pack("!BBHBBBBBBBB", 2, 4, mss, 4, 2, 3, 3, WINDOW_SCALE, 1, 1, 1)


def sack_option(blocks):
    edges = b"".join(struct.pack("!II", left & 0xFFFFFFFF, right & 0xFFFFFFFF)
                     for left, right in blocks)
    return struct.pack("!BBBB", 1, 1, 5, 2 + len(edges)) + edges


def icmp(source, target, kind, code, rest, quoted):
    """An ICMP message about the packet `quoted`, of which it carries the first 28 bytes."""
    body = struct.pack("!BBHI", kind, code, 0, rest) + quoted[:28]
    return ipv4(source, target, ICMP, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


@dataclass
class Segment:
    """A received TCP segment."""

    source: bytes
    target: bytes
    source_port: int
    target_port: int
    seq: int
    ack: int
    flags: int
    window: int
    text_bytes: int


def parse_tcp(frame):
    """The segment in a frame; None when it has none."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != TCP:
        return None
    packet = frame[14:14 + struct.unpack_from("!H", frame, 16)[0]]
    at = (packet[0] & 15) * 4
    fields = struct.unpack_from("!HHIIBBH", packet, at)
    return Segment(packet[12:16], packet[16:20], *fields[:4], fields[5], fields[6],
                   len(packet) - at - (fields[4] >> 4) * 4)


class RawHost:
    """Hosts `addresses` at `device`, which belongs to the calling thread's network namespace. They
    share one MAC address, and answer ARP while `receive()` runs."""

    def __init__(self, device, addresses, target, target_mac, number=0x66):
        self.mac = bytes((2, 0x66, 0x66, 0x66, 0x66, number))
        self.addresses = [packed(address) for address in addresses]
        self.target = packed(target)
        self.target_mac = bytes.fromhex(target_mac.replace(":", ""))
        self._link = self.target_mac + self.mac
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._filter()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.bind((device, ETH_P_ALL))
        self._socket.setblocking(False)

    def _filter(self):
        """Frames to this host, and ARP: the rest of the wire's traffic is not received."""
        program = ((0x20, 0, 0, 0), (0x15, 2, 0, struct.unpack("!I", self.mac[:4])[0]),
                   (0x28, 0, 0, 12), (0x15, 0, 1, ETH_ARP), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                                struct.pack("HP", len(program), ctypes.addressof(code)))

    def close(self):
        self._socket.close()

    def send_frame(self, frame):
        """Waits while the device takes nothing."""
        while True:
            try:
                self._socket.send(frame)
                return
            except (BlockingIOError, OSError):
                select.select([], [self._socket], [], 0.01)

    def send(self, packet):
        self.send_frame(self._link + struct.pack("!H", ETH_IPV4) + packet)

    def send_tcp(self, ports, seq, ack, flags, source=None, **rest):
        self.send(tcp(source or self.addresses[0], self.target, ports, seq, ack, flags, **rest))

    def announce(self):
        """Claims to be a neighbour, so that nothing has to be asked during an attack."""
        for address in self.addresses:
            self._arp(1, address, self.target, b"\0" * 6)

    def _arp(self, operation, source, target, target_mac):
        self.send_frame(self._link + struct.pack("!H", ETH_ARP) + struct.pack(
            "!HHBBH6s4s6s4s", 1, ETH_IPV4, 6, 4, operation, self.mac, source, target_mac, target))

    def receive(self, timeout_s=0):
        """The next TCP segment, None when none came in time."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                frame = self._socket.recv(2048)
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                    return None
                continue
            if frame[12:14] == b"\x08\x06":
                self._answer_arp(frame)
            elif (segment := parse_tcp(frame)) and segment.target in self.addresses:
                return segment

    def _answer_arp(self, frame):
        operation, _, source, _, target = struct.unpack_from("!H6s4s6s4s", frame, 20)
        if operation == 1 and target in self.addresses:
            self._arp(2, target, source, frame[6:12])


class RawConnection:
    """One end of a connection, whose sequence numbers count from 0 at its first byte."""

    start = 0x10000000  # the sequence number of our first byte

    def __init__(self, host, ports, address=None, mss=MSS_DEFAULT):
        self.host = host
        self.ports = ports
        self.address = address or host.addresses[0]
        self.mss = mss
        self.peer_start = 0      # of the peer's
        self.acked = 0           # of our bytes
        self.peer_next = 0       # the highest byte of the peer that came, and one
        self.window = 0          # of the peer, scale not applied

    def connect(self, patience_s=STEP_TIMEOUT_S):
        """Opens it. Fails: TimeoutError, ConnectionRefusedError."""
        end = time.monotonic() + patience_s
        while (left := end - time.monotonic()) > 0:
            self._send(-1, SYN, options=syn_options(self.mss))
            answer = self.await_segment(min(left, 1))
            if answer and answer.flags & RST:
                raise ConnectionRefusedError
            if answer and answer.flags & SYN:
                self._begin(answer)
                self.acknowledge()
                return self
        raise TimeoutError("no SYN,ACK came")

    def _begin(self, segment):
        self.peer_start = segment.seq + 1 & 0xFFFFFFFF
        self.window = segment.window

    @classmethod
    def accept(cls, host, port, mss=MSS_DEFAULT):
        """The next connection that the target opens to `port`. Fails: TimeoutError."""
        end = time.monotonic() + STEP_TIMEOUT_S
        while time.monotonic() < end:
            asked = host.receive(1)
            if asked and asked.target_port == port and asked.flags & (SYN | RST) == SYN:
                made = cls(host, (port, asked.source_port), asked.target, mss)
                made._begin(asked)
                made._send(-1, SYN | ACK, options=syn_options(mss))
                return made
        raise TimeoutError("no SYN came")

    def await_segment(self, timeout_s):
        """The next segment of this connection; those of others are lost."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            segment = self.host.receive(left)
            if segment and (segment.target_port, segment.source_port) == self.ports:
                self.take(segment)
                return segment
        return None

    def take(self, segment):
        """Keeps what a segment of this connection tells."""
        if segment.flags & ACK and not segment.flags & (SYN | RST):
            distance = segment.ack - self.start - self.acked & 0xFFFFFFFF
            if distance < 1 << 31:
                self.acked += distance
            self.window = segment.window
            end = segment.seq - self.peer_start + segment.text_bytes & 0xFFFFFFFF
            self.peer_next = max(self.peer_next, end if end < 1 << 31 else 0)

    def _send(self, at, flags, **rest):
        self.host.send_tcp(self.ports, self.start + at, self.peer_start + self.peer_next, flags,
                           source=self.address, **rest)

    def packet(self, at, text, window=65535):
        """The packet with `text` at byte `at`."""
        return tcp(self.address, self.host.target, self.ports, self.start + at,
                   self.peer_start + self.peer_next, ACK | PSH, window, text=text)

    def acknowledge(self, peer_bytes=None, blocks=(), at=0):
        """Acknowledges `peer_bytes` of the peer; default: all. `blocks` count as they do."""
        upto = self.peer_start + (self.peer_next if peer_bytes is None else peer_bytes)
        options = sack_option([(self.peer_start + left, self.peer_start + right)
                               for left, right in blocks]) if blocks else b""
        self.host.send_tcp(self.ports, self.start + at, upto, ACK, source=self.address,
                           options=options)

    def reset(self):
        """Ends it, whatever the peer has received: the reset is at the byte that it expects."""
        self._send(self.acked, RST | ACK)
