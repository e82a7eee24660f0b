"""Two daemons on this machine, "host-a" and "host-b", connected by a wire, memif by default."""

import os
import re
import shutil
import tempfile

from daemon import Daemon, Settings

ADDRESSES = {"host-a": "10.9.0.1", "host-b": "10.9.0.2"}
# The default MTU of a network.
MTU = 1500
IPV6_INTERFACES = {"host-a": "fd00:9::1/64", "host-b": "fd00:9::2/64"}
# Of the configuration: TCP packets of up to 64 KiB cross a memif wire uncut.
SUPER_PACKETS = {"port": {"trusted": True, "super_packets": True}}


def scratch_root():
    parent = tempfile.gettempdir()
    return parent if len(parent) < 60 else "/tmp"


def scratch_folder():
    """A private folder whose path leaves room for the name of a socket (107 bytes)."""
    return tempfile.mkdtemp(prefix="lyre-", dir=scratch_root())


def cores():
    """One core for each daemon; the same one if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def super_packets_refusal(programs):
    """Why `lyred --check` refuses SUPER_PACKETS on memif with this DPDK; None: it does not."""
    with tempfile.TemporaryDirectory(dir=scratch_root(), prefix="lyre-") as folder:
        device = f"net_memif0,role=server,socket={folder}/wire.sock,socket-abstract=no"
        settings = Settings("host-a", device, f"{ADDRESSES['host-a']}/24", cores()[0],
                            sections=SUPER_PACKETS)
        refused = re.search("no super-packets: .*", Daemon(programs, settings, folder).check())
    return refused and refused.group()


def need_super_packets(test, programs):
    if refusal := super_packets_refusal(programs):
        test.skipTest(refusal)


class TwoHosts:
    """Daemons `a` and `b`, which run inside a `with` block: both are ready and their link is up."""

    def __init__(self, programs, mtu=MTU, sections=None, interfaces=None, cores_of=None, wire=None,
                 sections_of=None):
        """`interfaces` are by name what the port's "address" shall be; default: of IPv4. `cores_of`
        are by name those of the workers; default: one each. `wire`: a VethPair, such as those of
        wires.py, up, in place of memif. `sections_of` are by name sections that one host has beside
        `sections`."""
        interfaces = interfaces or {name: f"{address}/24" for name, address in ADDRESSES.items()}
        self._folder = scratch_folder()
        self._wire = wire
        self.a, self.b = (
            Daemon(programs,
                   Settings(name, self._device(role), interfaces[name], core, mtu,
                            self._sections(sections, (sections_of or {}).get(name),
                                           (cores_of or {}).get(name))),
                   self._folder, wire.inside(end) if wire else ())
            for (name, role, core, end) in zip(
                interfaces, ("server", "client"), cores(),
                (wire.left, wire.right) if wire else (None, None)))

    def _device(self, role):
        if self._wire:
            return self._wire.port()
        path = os.path.join(self._folder, "wire.sock")
        return f"net_memif0,role={role},socket={path},socket-abstract=no"

    @staticmethod
    def _sections(common, own, worker_cores):
        out = {**(common or {}), **(own or {})}
        if worker_cores:
            out["workers"] = {**out.get("workers", {}), "cores": list(worker_cores)}
        return out

    def __enter__(self):
        try:
            for host in (self.a, self.b):
                host.start()
            if self._wire:
                self._wire.connect_ports()
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
        # The first error is the one to report.
        if complaint is not None and is_clean_end_asked:
            raise complaint
