"""Two network namespaces with one veth wire between them, for as long as a `with` block lasts."""

import contextlib
import functools
import ipaddress
import json
import os
import re
import subprocess

import processes

COMMAND_TIMEOUT_S = 60
NAMESPACES = "/run/netns"


class NetworkError(Exception):
    """This machine does not support the required namespaces. The text is one line."""


class CommandFailed(Exception):
    """A command failed on a machine that supports namespaces, which is no reason to skip a test."""


class CommandTimeout(CommandFailed):
    """A command has not ended: the machine is too busy."""


def prefix_bits_of(address):
    """Of the networks that tests make."""
    return 24 if ipaddress.ip_address(address).version == 4 else 64


def kernel_congestions():
    """The names of this kernel's congestion controls."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="utf-8") as file:
        return file.read().split()


def _run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S,
                              check=False)
    except OSError as error:
        raise CommandFailed(f"{command[0]}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise CommandTimeout(str(error)) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CommandFailed(" ".join(command) + ": " + (said[-1] if said else "failed"))
    return done.stdout


def left_namespaces(folder=NAMESPACES):
    """Those of tests that were killed: their names begin with the process that made them."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [name for name in sorted(names) if (made := re.fullmatch(r"lyre-(\d+)-[a-z]+", name))
            and not os.path.exists(f"/proc/{made[1]}")]


def _remove_namespace(name):
    """Tidying decides no verdict: what stays is removed by a later run."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["ip", "netns", "del", name], capture_output=True,
                       timeout=COMMAND_TIMEOUT_S, check=False)


def remove_left_namespaces():
    for name in left_namespaces():
        _remove_namespace(name)


@functools.cache
def require_namespaces():
    """Makes and removes a namespace with a wire, once in a process. NetworkError: this machine
    cannot. What fails later is a failure of its test."""
    if os.geteuid() != 0:
        raise NetworkError("network namespaces need root")
    name = f"lyre-{os.getpid()}-probe"
    try:
        _run("ip", "netns", "add", name)
        _run(*_inside(name, "ip", "link", "add", "wire0", "type", "veth", "peer", "name", "wire1"))
        _run(*_inside(name, "ethtool", "-K", "wire0", "tx", "off"))
    except CommandTimeout:
        raise
    except CommandFailed as error:
        raise NetworkError(str(error)) from error
    finally:
        _remove_namespace(name)


def _inside(name, *command):
    # Not `ip netns exec` or `ip -n`: they need mounts of their own, which a chroot cannot have.
    return ["nsenter", f"--net={NAMESPACES}/{name}", "--", *command]


class VethPair:
    """Namespaces `left` and `right`, each with loopback and one end of the wire, named "wire0".

    `offloads` are ethtool's words for both ends, such as ["tso", "off"]. Of two wires at a time one
    needs a `name`, of letters.
    """

    device = "wire0"
    congestion = "cubic"

    def __init__(self, offloads, mtu=1500, name=""):
        stem = f"lyre-{os.getpid()}-{name}"
        self.left = stem + "l"
        self.right = stem + "r"
        self._offloads = offloads
        self._mtu = mtu
        self._made = []
        self._routes = {}
        self._addresses = []

    def __enter__(self):
        require_namespaces()
        try:
            for name in (self.left, self.right):
                self._add_namespace(name)
            self._connect()
            for name in (self.left, self.right):
                self._bring_up(name, self.device)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add_namespace(self, name):
        _run("ip", "netns", "add", name)
        self._made.append(name)
        # Only the test itself may send on the wire.
        self.run(name, "sh", "-c",
                 "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 || true")

    def port(self):
        """DPDK's arguments for a daemon's port at either end, see TwoHosts."""
        return f"net_af_packet0,iface={self.device}"

    def connect_ports(self):
        """To be called when both daemons have started."""

    def _connect(self):
        self._add_veth(self.left, self.device, self.right, self.device)

    def _add_veth(self, name, device, peer, peer_device):
        self.run(name, "ip", "link", "add", device, "type", "veth", "peer",
                 "name", peer_device, "netns", peer)

    def _bring_up(self, name, device):
        if self._offloads:
            self.run(name, "ethtool", "-K", device, *self._offloads)
        self.run(name, "ip", "link", "set", device, "mtu", str(self._mtu), "up")
        self.run(name, "ip", "link", "set", "lo", "up")

    def __exit__(self, *_exception):
        for name in reversed(self._made):
            _remove_namespace(name)
        self._made.clear()

    def give_address(self, name, address, prefix_bits=None):
        """Gives namespace `name` its address and a congestion control that the kernel has."""
        interface = ipaddress.ip_interface(f"{address}/{prefix_bits or prefix_bits_of(address)}")
        options = ["noprefixroute"]
        if interface.version == 6:
            self.enable_ipv6(name)
            options.append("nodad")
        self.run(name, "ip", "addr", "add", str(interface), "dev", self.device, *options)
        self._routes[name] = [str(interface.network), "dev", self.device, "src", address]
        self._add_route(name)

    def enable_ipv6(self, name):
        folder = f"/proc/sys/net/ipv6/conf/{self.device}"
        self.run(name, "sh", "-c", f"echo 0 > {folder}/disable_ipv6")
        # Otherwise the addresses are removed when the device goes down.
        self.run(name, "sh", "-c", f"echo 1 > {folder}/keep_addr_on_down")

    def _add_route(self, name):
        family = "-6" if ":" in self._routes[name][0] else "-4"
        self.run(name, "ip", family, "route", "add", *self._routes[name], "congctl",
                 self.congestion)

    def take_away(self):
        """The wire vanishes with its devices, as a NIC does that is unplugged."""
        self._addresses = [self._mac(name) for name in (self.left, self.right)]
        self.run(self.left, "ip", "link", "del", self.device)

    def bring_back(self):
        """The wire is there again, with the same addresses."""
        self._connect_wire(*self._addresses)
        for name in (self.left, self.right):
            self._bring_up(name, self.device)

    def _mac(self, name):
        return json.loads(self.run(name, "ip", "-json", "link", "show", self.device))[0]["address"]

    def _connect_wire(self, left_mac, right_mac):
        self.run(self.left, "ip", "link", "add", self.device, "address", left_mac, "type", "veth",
                 "peer", "name", self.device, "address", right_mac, "netns", self.right)

    def pull_out(self, name):
        """Takes this end of the wire down. The other end is not told."""
        self.run(name, "ip", "link", "set", self.device, "down")

    def plug_in(self, name):
        self.run(name, "ip", "link", "set", self.device, "up")
        # The kernel removes the routes of a device that is down.
        if name in self._routes:
            self._add_route(name)

    @staticmethod
    def inside(name, *command):
        """The command line that runs `command` in the namespace."""
        return _inside(name, *command)

    @staticmethod
    def run(name, *command):
        return _run(*VethPair.inside(name, *command))


class BridgedPair(VethPair):
    """The same with a third namespace, `middle`, in the wire: what goes from its device "left0" to
    its "right0" and back is up to a program there, such as tests/interop/bridge.py starts."""

    middle_devices = ("left0", "right0")

    def __init__(self, offloads, mtu=1500):
        super().__init__(offloads, mtu)
        self.middle = f"lyre-{os.getpid()}-m"

    def _connect(self):
        self._add_namespace(self.middle)
        for name, device in zip((self.left, self.right), self.middle_devices):
            self._add_veth(name, self.device, self.middle, device)
            self._bring_up(self.middle, device)


class Namespace:
    """This thread's sockets are made in the namespace inside a `with` block."""

    _CLONE_NEWNET = 0x40000000

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        with open(f"{NAMESPACES}/{self._name}", "rb") as there:
            self._enter(there.fileno())

    def __exit__(self, *_exception):
        self._enter(self._before)
        os.close(self._before)

    def _enter(self, descriptor):
        if processes.libc.setns(descriptor, self._CLONE_NEWNET) != 0:
            raise OSError("setns failed")
