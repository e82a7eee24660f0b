"""Wires of the kernel's between two daemons, each of which has a port in a namespace of its own."""

from network import VethPair


class DriverWire(VethPair):
    """A daemon at each end of a veth wire, by "net_af_packet" or "net_af_xdp"."""

    def __init__(self, driver, offloads, mtu=1500):
        super().__init__(offloads, mtu, name="p")
        self._driver = driver

    def port(self):
        return f"{self._driver}0,iface={self.device}"


class TapWire(VethPair):
    """A daemon at the other side of a TAP device, which a bridge connects with a veth wire."""

    tap = "tap0"
    bridge = "bridge0"
    # The driver gives both sides the same address, and a bridge keeps what goes to its own.
    KERNEL_MAC = "02:00:00:00:07:07"

    def __init__(self, offloads, mtu=1500):
        super().__init__(offloads, mtu, name="t")

    def port(self):
        return f"net_tap0,iface={self.tap}"

    def connect_ports(self):
        # The daemons have made their devices.
        self.connect_taps(self.left, self.right)

    def connect_taps(self, *names):
        for name in names:
            self.run(name, "ip", "link", "set", self.tap, "address", self.KERNEL_MAC)
            self.run(name, "ip", "link", "add", self.bridge, "type", "bridge")
            for device in (self.tap, self.device):
                self.run(name, "ip", "link", "set", device, "master", self.bridge)
            self.run(name, "ip", "link", "set", self.bridge, "up")


class LeftTap(TapWire):
    """The same with a daemon at the left only. The kernel has the right end."""

    def connect_ports(self):
        self.connect_taps(self.left)
