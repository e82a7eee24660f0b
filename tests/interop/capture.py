"""Captures of the wire: recorded by dumpcap, analysed by tshark."""

import collections
import os
import re
import time

import processes

START_TIMEOUT_S = 60
BUFFER_MIB_MIN, BUFFER_MIB_MAX = 256, 2000
ANALYSIS_TIMEOUT_S = 900

LYRE, LYRE6 = "10.9.2.1", "fd00:9:2::1"

# Faults that a capture must not contain: name -> tshark's display filter. For a checksum of 0 Linux
# writes the other zero of one's complement, 0xffff, also for a sender that leaves the checksum to
# it, as Lyre does on an interface of the kernel. tshark counts that one as bad.
FAULTS = {
    "malformed packets": "_ws.malformed",
    "bad TCP checksums": "tcp.checksum.status == 0 and not tcp.checksum.ffff",
    "bad ICMPv6 checksums": "icmpv6.checksum.status == 0",
    "bad IP checksums": "ip.checksum.status == 0",
    "spurious retransmissions": "tcp.analysis.spurious_retransmission",
}
# An ICMP error quotes a truncated packet, which tshark would report as malformed.
QUOTES = "icmp.type in {3, 11, 12} or icmpv6.type in {1, 2, 3, 4}"
# The payload is random; tshark would dissect it as other protocols, malformed.
ANY_PAYLOAD = ("-d", "tcp.port==1-65535,data", "-d", "udp.port==1-65535,data")
TIMES = "tcp.options.timestamp."

Segment = collections.namedtuple(
    "Segment", "number stream sender receiver sequence acknowledgement bytes time echo")
SEGMENT_FIELDS = ("frame.number", "tcp.stream", "tcp.srcport", "tcp.dstport", "tcp.seq", "tcp.ack",
                  "tcp.len", TIMES + "tsval", TIMES + "tsecr")


class CaptureError(Exception):
    """There is no usable recording."""


class Recording:
    """A capture file, analysed by tshark."""

    def __init__(self, path):
        self._path = path

    def faults(self, names=tuple(FAULTS)):
        """One line of text for each packet in which tshark finds one of these faults."""
        wanted = " or ".join(f"({FAULTS[name]})" for name in names)
        return self.matching(f"({wanted}) and not ({QUOTES})")

    def needless_retransmissions(self):
        """Of the spurious ones those whose sender had the acknowledgement, in order.

        The timestamp that a segment echoes names packets of the peer, and its sender had the first
        of them. An acknowledgement in a later packet may have been on its way: a busy machine may
        see it after its timer ended, which is no fault.
        """
        acknowledged = {}
        for segment in self._segments("tcp.flags.reset == 0"):
            key = (segment.stream, segment.receiver, segment.time)
            acknowledged.setdefault(key, segment.acknowledgement)
        return [segment for segment in self._segments(FAULTS["spurious retransmissions"])
                if segment.sequence + segment.bytes
                <= acknowledged.get((segment.stream, segment.sender, segment.echo), 0)]

    def _segments(self, display_filter):
        fields = [word for field in SEGMENT_FIELDS for word in ("-e", field)]
        for line in self.matching(f"({display_filter}) and not ({QUOTES})", "-T", "fields",
                                  *fields):
            values = line.split("\t")
            if "" in values:
                raise CaptureError(f"packet {values[0]} has no timestamp")
            yield Segment(*map(int, values))

    def matching(self, display_filter, *form):
        """One line of text for each packet that tshark finds."""
        done = processes.run(
            ["tshark", "-r", self._path, "-n", "-o", "tcp.check_checksum:TRUE",
             "-o", "ip.check_checksum:TRUE", *ANY_PAYLOAD, "-Y", display_filter, *form],
            ANALYSIS_TIMEOUT_S, capture_output=True)
        if done.returncode != 0:
            raise CaptureError("tshark: " + done.stderr.strip())
        return done.stdout.splitlines()


class Capture(Recording):
    """Records the device of a namespace while a `with` block lasts.

    `mib` is about what will go over the wire: as much memory lets the recorder fall behind.
    """

    def __init__(self, wire, namespace, path, mib):
        super().__init__(path)
        buffer_mib = min(max(2 * mib, BUFFER_MIB_MIN), BUFFER_MIB_MAX)
        self._command = wire.inside(namespace, "nice", "-n", "-10", "dumpcap", "-q",
                                    "-i", wire.device, "-w", path, "-B", str(buffer_mib))
        self._log_path = path + ".log"
        self._process = None

    def __enter__(self):
        with open(self._log_path, "wb") as log:
            self._process = processes.start(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        # dumpcap prints the file's name when it records.
        while "File: " not in self._log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                processes.end(self._process)
                raise CaptureError("dumpcap does not start: " + self._log().strip())
            time.sleep(0.02)
        return self

    def __exit__(self, *_exception):
        self._wait_until_written()
        processes.end(self._process)

    def _log(self):
        with open(self._log_path, encoding="utf-8") as file:
            return file.read()

    def _wait_until_written(self):
        """Waits until the captured packets have reached the file."""
        size, quiet_s = -1, 0.0
        while quiet_s < 1.0 and self._process.poll() is None:
            now = os.path.getsize(self._path)
            quiet_s = quiet_s + 0.25 if now == size else 0.0
            size = now
            time.sleep(0.25)

    def packets(self):
        """The number of recorded packets. Fails when dumpcap missed one."""
        found = re.search(r"received/dropped on interface '[^']*': (\d+)/(\d+)", self._log())
        if found is None:
            raise CaptureError("dumpcap gave no count: " + self._log().strip())
        received, dropped = map(int, found.groups())
        if dropped:
            raise CaptureError(f"dumpcap missed {dropped} of {received + dropped} packets")
        return received
