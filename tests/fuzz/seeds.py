"""Small inputs from which a fuzzer starts: well-formed packets, one or a few of each kind."""

import random
import struct

OWN_MAC, PEER_MAC = bytes([2, 0, 0, 0, 0, 1]), bytes([2, 0, 0, 0, 0, 2])
OWN_IP6, PEER_IP6 = (bytes([0xfd]) + bytes(14) + bytes([last]) for last in (1, 2))
OWN_IP, PEER_IP = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
# The first byte of a classify input: the port found both checksums good.
BOTH_GOOD = bytes([1 + 3 * 1])

SYN_OPTIONS = bytes.fromhex('020405b40402080a0000000100000000' '01030307')
DATA_OPTIONS = bytes.fromhex('0101080a0000000200000001')
SACK_OPTIONS = DATA_OPTIONS + bytes.fromhex('0101050a0000100000002000')

CONFIG = '''
[daemon]
name = "lyre"
[workers]
cores = [0, 1]
idle = "adaptive"
[tcp]
congestion = "cubic"
user_timeout_ms = 20000
[[port]]
name = "wire"
device = "net_af_packet0,iface=eth0"
address = "10.9.2.1/24"
gateway = "10.9.2.254"
mtu = 1500
[[route]]
to = "10.8.0.0/16"
via = "10.9.2.253"
port = "wire"
'''


def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def tcp(flags, options=b'', payload=b''):
    offset = (20 + len(options)) // 4 << 4
    return struct.pack('!HHIIBBHHH', 4000, 80, 1000, 2000, offset, flags, 512, 0,
                       0) + options + payload


def ipv4(protocol, payload, source=PEER_IP, destination=OWN_IP, total=None):
    def header(check):
        return struct.pack('!BBHHHBBH', 0x45, 0, total or 20 + len(payload), 1, 0x4000, 64,
                           protocol, check) + source + destination
    return header(checksum(header(0))) + payload


def icmp(kind, code, rest, body):
    def message(check):
        return struct.pack('!BBHI', kind, code, check, rest) + body
    return message(checksum(message(0)))


def arp(operation, sender=PEER_IP, target=OWN_IP):
    return (struct.pack('!HHBBH', 1, 0x0800, 6, 4, operation) + PEER_MAC + sender + bytes(6) +
            target)


def ethernet(kind, payload, destination=OWN_MAC):
    return destination + PEER_MAC + struct.pack('!H', kind) + payload


def quote():
    return ipv4(6, tcp(0x10)[:8], OWN_IP, PEER_IP, 1500)


def icmp_messages():
    return [icmp(8, 0, 0x00010001, b'ping'), icmp(3, 3, 0, quote()), icmp(3, 4, 1400, quote()),
            icmp(3, 4, 0, quote()), icmp(11, 0, 0, quote()), icmp(0, 0, 1, b'')]


def ipv6(next_header, payload, source=PEER_IP6, destination=OWN_IP6, hop_limit=64):
    return struct.pack('!IHBB', 0x60000000, len(payload), next_header,
                       hop_limit) + source + destination + payload


def icmpv6(kind, code, rest, body, source=PEER_IP6, destination=OWN_IP6):
    def message(check):
        return struct.pack('!BBHI', kind, code, check, rest) + body
    pseudo = source + destination + struct.pack('!II', 8 + len(body), 58)
    return message(checksum(pseudo + message(0)))


def ndp_messages():
    source_mac, target_mac = b'\x01\x01' + PEER_MAC, b'\x02\x01' + PEER_MAC
    router = bytes(8) + source_mac + b'\x05\x01\0\0\0\0\x05\xdc'
    return [icmpv6(135, 0, 0, OWN_IP6 + source_mac),
            icmpv6(136, 0, 0xe0000000, PEER_IP6 + target_mac),
            icmpv6(134, 0, 0x40080708, router), icmpv6(135, 0, 0, OWN_IP6),
            icmpv6(133, 0, 0, source_mac), icmpv6(137, 0, 0, PEER_IP6 + OWN_IP6)]


def icmpv6_messages():
    quoted = ipv6(6, tcp(0x10)[:8], OWN_IP6, PEER_IP6)
    return ndp_messages() + [icmpv6(130, 0, 1000 << 16, bytes(16)), icmpv6(130, 0, 0, bytes(20)),
                             icmpv6(128, 0, 0x00010001, b'ping'), icmpv6(1, 4, 0, quoted),
                             icmpv6(2, 0, 1400, quoted), icmpv6(3, 0, 0, quoted),
                             icmpv6(4, 1, 6, quoted)]


def ipv6_packets():
    segment = tcp(0x10, DATA_OPTIONS, b'payload')
    padding = b'\x01\x04' + bytes(4)
    return [ipv6(6, segment), ipv6(0, b'\x06\0' + padding + segment),
            ipv6(60, b'\x2b\0' + padding + b'\x06\0\0\0' + bytes(4) + segment),
            ipv6(44, b'\x06\0\0\0' + bytes(4) + segment),
            ipv6(44, b'\x06\0\0\1' + bytes(4) + segment),
            ipv6(0, b'\x3a\0\x05\x02\0\0\x01\0' + icmpv6_messages()[0]),
            ipv6(60, b'\x06\0\xc2\x04' + bytes(4)), ipv6(17, bytes(8))] + [
                ipv6(58, message, hop_limit=255) for message in icmpv6_messages()]


def super_packets():
    """What a classify input has of TCP packets whose last 60 KiB lie in other slots."""
    rest = 60 * 1024
    first = tcp(0x10, DATA_OPTIONS, bytes(1400))
    six = struct.pack('!IHBB', 0x60000000, len(first) + rest, 6, 64) + PEER_IP6 + OWN_IP6 + first
    return [bytes([0x40 | BOTH_GOOD[0]]) + struct.pack('<H', rest) + frame
            for frame in (ethernet(0x0800, ipv4(6, first, total=20 + len(first) + rest)),
                          ethernet(0x86dd, six))]


def control_requests():
    attach = struct.pack('<IHHIIHHIQ64s', 0x4c595243, 4, 4, 1, 96, 6, 6, 0, 1 << 20, b'label')
    newer = struct.pack('<IHHIIHHIQ64sQ', 0x4c595243, 4, 5, 1, 104, 6, 7, 0, 1 << 20, b'', 1)
    return [attach, newer, struct.pack('<IHHII', 0x4c595243, 4, 4, 3, 16)]


def adapter_frame(kind, size, message, total, offset):
    return struct.pack('<IIQQQ', kind, size, message, total, offset)


def adapter_streams():
    hello = b'LYRENCCL' + struct.pack('<HHHHHHI', 2, 3, 128, 0, 0, 1, 7) + bytes(104)
    data = (adapter_frame(1, 4, 0, 6, 0) + b'head' + adapter_frame(1, 2, 0, 6, 4) + b'en' +
            adapter_frame(1, 0, 1, 0, 0))
    grants = adapter_frame(2, 0, 0, 0, 2) + adapter_frame(2, 0, 1, 0, 3)
    gid = b'\xfd' + bytes(14) + b'\1'
    terms = struct.pack('<II16sIIII8x', 0x123456, 7, gid, 1024, 16, 65536, 3)
    pairs = (adapter_frame(6, 48, 64, 0, 1) + terms + adapter_frame(6, 56, 64, 0, 2) + terms +
             bytes(8) + adapter_frame(8, 4, 64, 0, 2) + b'gone' +
             adapter_frame(7, 48, 64, 0, 3) + terms)
    return [b'\0\0' + hello, b'\1\x20' + data + adapter_frame(4, 0, 0, 0, 0),
            b'\1\x20' + pairs, b'\1\x07' + pairs, b'\2\0' + grants]


def seeds(target):
    """The inputs for one fuzzer, by the name of its source without `_fuzz.cc`."""
    segments = [tcp(0x02, SYN_OPTIONS), tcp(0x10, DATA_OPTIONS, b'payload'),
                tcp(0x10, SACK_OPTIONS), tcp(0x11), tcp(0x04)]
    if target == 'tcp_options':
        return segments
    if target == 'icmp':
        return icmp_messages()
    if target == 'icmpv6':
        return [pair + message for pair in (b'\x04\x02', b'\x07\x03')
                for message in icmpv6_messages()]
    if target == 'ipv6':
        return ipv6_packets()
    if target == 'neighbours':
        ndp = [bytes([1 | len(message) // 8 << 1, source]) + message
               for source, message in zip((2, 2, 5, 0, 2, 4), ndp_messages())]
        return [b'\x02' + arp(1), b'\0\x02\0\0\x0a' + b'\x02' + arp(2) + b'\x01\x3c',
                b'\x02' + arp(1, PEER_IP, PEER_IP), b'\0\x02\0\0\x0a\x01\x09\x01\x09',
                b'\x01\x03' * 2 + b''.join(ndp), b'\x01\x05' * 3 + b'\0\x01\0\0\x02' + ndp[1]]
    if target == 'classify':
        packets = [ipv4(6, each) for each in segments] + [ipv4(1, m) for m in icmp_messages()]
        frames = [ethernet(0x0800, packet) for packet in packets]
        frames.append(ethernet(0x0806, arp(1), b'\xff' * 6))
        frames += [ethernet(0x86dd, packet) for packet in ipv6_packets()]
        return [BOTH_GOOD + frame for frame in frames] + super_packets()
    if target == 'channel':
        return [random.Random(number).randbytes(50 << number % 5) for number in range(20)]
    if target == 'control':
        return control_requests()
    if target == 'config':
        return [CONFIG.encode(), b'[[port]]\ndevice = "net_memif0"\naddress = "10.0.0.1/24"\n']
    if target == 'handle':
        return [b'\0' + struct.pack('<H', 2) + bytes(126), b'\1' + b'10.9.0.1:5000', b'\1:80',
                b'\2' + b'0123456789abcdef' + b'host-a']
    if target in ('segment', 'two_stacks'):
        return [random.Random(number).randbytes(20 << number % 5) for number in range(40)]
    if target == 'adapter_stream':
        return adapter_streams()
    return []
