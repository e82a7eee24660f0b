"""Two daemons on this machine, "host-a" and "host-b", at the ends of veth wires."""

import contextlib
import shutil

from daemon import Daemon, Settings
from network import BridgedPair, VethPair
from two_hosts import cores, scratch_folder

NO_OFFLOADS = ["tx", "off", "rx", "off"]
# Devices of a port, with a place for the interface. The second is one with keeping_nic.cc only.
PACKET_SOCKETS = "net_af_packet0,iface={}"
KEEPING_NIC = "net_af_xdp0,iface={},xdp_prog=none"


class TwoRails(VethPair):
    """Two wires between the namespaces, "wire0" and "wire1"."""

    second = "wire1"

    def _connect(self):
        super()._connect()
        self._add_veth(self.left, self.second, self.right, self.second)
        for name in (self.left, self.right):
            self._bring_up(name, self.second)


class Switch(BridgedPair):
    """A wire with a switch that can limit the rate of a stream."""

    def _connect(self):
        super()._connect()
        self.run(self.middle, "ip", "link", "add", "switch", "type", "bridge")
        for device in ("switch", *self.middle_devices):
            if device != "switch":
                self.run(self.middle, "ip", "link", "set", device, "master", "switch")
            self.run(self.middle, "ip", "link", "set", device, "up")

    def _tc(self, kind, *words):
        self.run(self.middle, "tc", kind, "add", "dev", self.middle_devices[1], *words)

    def narrow(self, rate, frames):
        """Limits what left sends to `rate`, such as "8mbit", with a queue of `frames`."""
        self._tc("qdisc", "root", "handle", "1:", "htb", "default", "2")
        self._tc("class", "parent", "1:", "classid", "1:2", "htb", "rate", rate)
        self._tc("qdisc", "parent", "1:2", "pfifo", "limit", str(frames))

    def slow_down(self, source_port, rate):
        """Limits what left sends from this TCP port to `rate`."""
        self._tc("qdisc", "root", "handle", "1:", "htb")
        self._tc("class", "parent", "1:", "classid", "1:2", "htb", "rate", rate)
        self._tc("filter", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "sport",
                 str(source_port), "0xffff", "flowid", "1:2")

    def speed_up(self):
        """Ends the limit of slow_down() or narrow()."""
        self.run(self.middle, "tc", "qdisc", "del", "dev", self.middle_devices[1], "root")


class TwoPorts(Settings):
    """A daemon on both wires of TwoRails. All ports are in one subnet, as in clouds."""

    def toml(self, socket_path):
        network, host = self.address.split("/")[0].rsplit(".", 1)
        device = self.device.replace("0,iface=" + TwoRails.device, "1,iface=" + TwoRails.second)
        return (super().toml(socket_path) +
                f'[[port]]\nname = "second"\ndevice = "{device}"\n'
                f'address = "{network}.1{host}/24"\nmtu = {self.mtu}\n')


class WiredHosts:
    """Runs while a `with` block lasts: `a`, 10.9.5.1, and `b`, 10.9.5.2, are ready and their links
    on `wire` are up. On TwoRails they are 10.9.5.11 and 10.9.5.12, too. Who is killed meanwhile
    need not be started again. `prefix`: words before the daemons' command lines. `device`: of a
    port, PACKET_SOCKETS or KEEPING_NIC."""

    def __init__(self, programs, wire, sections=None, prefix=(), device=PACKET_SOCKETS):
        self.wire = wire
        self._device = device
        self._prefix = list(prefix)
        self._programs = programs
        self._sections = sections or {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = scratch_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(self.wire)
            self.a, self.b = (self._start(stack, folder, *host) for host in (
                ("host-a", self.wire.left, "10.9.5.1/24", cores()[0]),
                ("host-b", self.wire.right, "10.9.5.2/24", cores()[1])))
            self._stack = stack.pop_all()
        return self

    def _start(self, stack, folder, name, end, address, core):
        kind = TwoPorts if isinstance(self.wire, TwoRails) else Settings
        settings = kind(name, self._device.format(self.wire.device), address, core,
                        sections=self._sections)
        inside = [*self.wire.inside(end), *self._prefix]
        daemon = Daemon(self._programs, settings, folder, inside)
        daemon.start()
        stack.callback(daemon.stop)
        daemon.wait_link()
        return daemon

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)
