"""The part of the wire's driver in the processor time of daemons.

memif's driver copies each packet with the daemons' cores, which a NIC does itself. The part also
has polls, descriptors and buffers, which the driver of a NIC has as well: the copies are inlined,
so samples do not tell them apart. The time without this part is therefore a lower bound of what
Lyre takes over a NIC. perf samples it; without perf nothing is known."""

import os
import re
import shutil
import subprocess
import tempfile

import processes

DRIVER = "librte_net_memif"
# Samples in a second of processor time.
FREQUENCY = 997
LINE = re.compile(r"^\s*([0-9.]+)%\s+(\S+)")


class DriverShare:
    """Samples the processes while its `with` block runs; then `share` is the driver's part of
    their time, 0 to 1, or None: there is no perf."""

    def __init__(self, pids):
        self._pids = pids
        self._folder = None
        self._perf = None
        self.share = None

    def __enter__(self):
        if shutil.which("perf"):
            self._folder = tempfile.TemporaryDirectory(prefix="lyre-")
            self._perf = processes.start(
                ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY),
                 "-p", ",".join(map(str, self._pids)), "-o", self._samples()],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_exception):
        if self._perf is None:
            return False
        processes.end(self._perf)
        report = subprocess.run(["perf", "report", "-i", self._samples(), "--stdio", "-q",
                                 "--sort", "dso"], capture_output=True, text=True, check=False)
        self.share = share_in(report.stdout)
        self._folder.cleanup()
        return False

    def _samples(self):
        return os.path.join(self._folder.name, "samples")


def share_in(report):
    """The driver's part in what `perf report --sort dso` prints, or None: it has no samples."""
    shares = [(float(found[1]) / 100, found[2]) for line in report.splitlines()
              if (found := LINE.match(line))]
    if not shares:
        return None
    return sum(share for share, name in shares if name.startswith(DRIVER))
