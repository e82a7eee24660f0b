"""Two daemons on this machine, "host-a" and "host-b", joined by a memif wire."""

import os
import shutil
import tempfile

from daemon import Daemon, Settings

ADDRESSES = {"host-a": "10.9.0.1", "host-b": "10.9.0.2"}
# What a network gives without asking.
MTU = 1500
IPV6_INTERFACES = {"host-a": "fd00:9::1/64", "host-b": "fd00:9::2/64"}


def scratch_folder():
    """A private folder whose path leaves room for the name of a socket (107 bytes)."""
    parent = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="lyre-", dir=parent if len(parent) < 60 else "/tmp")


def cores():
    """One core for each daemon; the same one where there is no other."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


class TwoHosts:
    """Runs while a `with` block lasts: `a` and `b` are ready and their link is up inside it."""

    def __init__(self, programs, mtu=MTU, sections=None, interfaces=None):
        """`interfaces` are by name what the port's "address" shall be; default: of IPv4."""
        interfaces = interfaces or {name: f"{address}/24" for name, address in ADDRESSES.items()}
        self._folder = scratch_folder()
        wire = os.path.join(self._folder, "wire.sock")
        self.a, self.b = (
            Daemon(programs,
                   Settings(name, f"net_memif0,role={role},socket={wire},socket-abstract=no",
                            interfaces[name], core, mtu, sections or {}), self._folder)
            for (name, role, core) in zip(interfaces, ("server", "client"), cores()))

    def __enter__(self):
        try:
            for host in (self.a, self.b):
                host.start()
            for host in (self.a, self.b):
                host.wait_link()
        except BaseException:
            self._end(is_clean_end_asked=False)
            raise
        return self

    def __exit__(self, kind, _value, _trace):
        self._end(is_clean_end_asked=kind is None)

    def _end(self, is_clean_end_asked):
        complaint = None
        for host in (self.b, self.a):
            try:
                host.stop()
            except Exception as error:  # the other daemon has to be stopped all the same
                complaint = complaint or error
        shutil.rmtree(self._folder, ignore_errors=True)
        # What went wrong first is what the user should read.
        if complaint is not None and is_clean_end_asked:
            raise complaint
