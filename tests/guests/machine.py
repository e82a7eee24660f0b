"""One QEMU process: a PC with a virtio disk, a NIC for DPDK and a NIC for the kernel."""

import ctypes
import dataclasses
import os
import re
import signal
import subprocess
import time

import monitor
import taps

# Where the NICs are in the guest. A NIC that is unplugged is behind a port of its own.
DPDK_NIC_SLOT = "0x10"
DPDK_NIC = "0000:00:10.0"
DPDK_NIC_BEHIND_PORT = "0000:01:00.0"
KERNEL_NIC_SLOT = "0x11"
VIRTIO = "virtio-net-pci"
QMP_TIMEOUT_S = 20
STOP_TIMEOUT_S = 5
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Hardware:
    memory_mib: int = 1536
    cpus: int = 2
    iommu: bool = False
    queues: int = 1    # of the NIC for DPDK; several need taps
    has_taps: bool = False
    nic: str = VIRTIO  # the NIC for DPDK, by QEMU's name
    is_pluggable: bool = False

    @property
    def nic_address(self):
        return DPDK_NIC_BEHIND_PORT if self.is_pluggable else DPDK_NIC


def _words(device):
    """A device as QEMU's command line has it."""
    rest = [f"{key}={value}" for key, value in device.items() if key != "driver"]
    return ",".join([device["driver"], *rest])


def _tsc_words():
    """The host's TSC is the guest's. A guest that measures its frequency on a busy host can be
    wrong, and its clock runs several times too fast. Only a virtual host states it."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    mhz = re.search(r"^cpu MHz\s*: ([\d.]+)$", text, re.MULTILINE)
    is_virtual = re.search(r"^flags\s*:.* hypervisor\b", text, re.MULTILINE)
    return [f"tsc_early_khz={round(float(mhz[1]) * 1000)}"] if mhz and is_virtual else []


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    """Owner: the scenario that boots it. Ends only the process that it started."""

    def __init__(self, name, peer, folder, image, emulator, hardware):
        self.name = name
        self.console = os.path.join(folder, f"{name}.console")
        self._peer = peer
        self._folder = folder
        self._image = image
        self._emulator = emulator
        self._hardware = hardware
        self._process = None

    def boot(self, kernel_words):
        log_path = os.path.join(self._folder, f"{self.name}.qemu.log")
        with open(log_path, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(self._command(kernel_words), stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=subprocess.STDOUT,
                                             cwd=self._folder, preexec_fn=_die_with_parent)

    def monitor(self):
        """The guest's QMP connection, once QEMU listens."""
        path = os.path.join(self._folder, f"qmp.{self.name}")
        deadline = time.monotonic() + QMP_TIMEOUT_S
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        return monitor.Monitor(os.path.relpath(path), self._dpdk_nic())

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def stop(self):
        if not self.is_running():
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _command(self, kernel_words):
        hardware = self._hardware
        # Nehalem: the oldest model that DPDK's build supports, and the cheapest to emulate.
        command = [*self._emulator, "-nodefaults", "-display", "none", "-no-reboot", "-accel",
                   "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem", "-machine", "q35",
                   "-m", str(hardware.memory_mib), "-smp", str(hardware.cpus),
                   "-kernel", self._image.kernel, "-initrd", self._image.initramfs,
                   "-append", self._kernel_command_line(kernel_words),
                   "-serial", f"file:{self.console}",
                   "-drive", f"file={self._image.disk},format=raw,if=none,id=disk,snapshot=on,"
                             "cache=unsafe",
                   "-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci",
                   "-fsdev", f"local,id=share,path={self._folder},security_model=none",
                   "-device", "virtio-9p-pci,fsdev=share,mount_tag=hostshare"]
        if hardware.iommu:
            command += ["-device", "intel-iommu,intremap=on,aw-bits=48"]
        netdev = self._taps() if hardware.has_taps else self._datagrams("wire")
        if hardware.is_pluggable:
            command += ["-device", f"pcie-root-port,id=nic-slot,chassis=1,addr={DPDK_NIC_SLOT}",
                        "-qmp", f"unix:qmp.{self.name},server=on,wait=off"]
        command += ["-netdev", netdev, "-device", _words(self._dpdk_nic())]
        command += ["-netdev", self._datagrams("admin"),
                    "-device", _words(self._nic(VIRTIO, "admin", 2) | {"addr": KERNEL_NIC_SLOT})]
        return command

    def _kernel_command_line(self, words):
        line = ["console=ttyS0", "quiet", "root=/dev/vda", "mitigations=off", "no_timer_check",
                "tsc=reliable", "random.trust_cpu=on", "panic=-1", "systemd.show_status=0"]
        line += _tsc_words()
        if self._hardware.iommu:
            line += ["intel_iommu=on", "iommu=pt"]
        return " ".join(line + [f"guest.name={self.name}"] + words)

    def _dpdk_nic(self):
        hardware = self._hardware
        device = self._nic(hardware.nic, "wire", 1)
        device |= {"bus": "nic-slot"} if hardware.is_pluggable else {"addr": DPDK_NIC_SLOT}
        if hardware.iommu and hardware.nic == VIRTIO:
            device |= {"disable-legacy": "on", "iommu_platform": "on"}
        if hardware.queues > 1:
            # One vector for each receive and transmit queue, and two for configuration and control.
            device |= {"mq": "on", "rss": "on", "hash": "on",
                       "vectors": str(2 * hardware.queues + 2)}
        return device

    def _nic(self, driver, wire, number):
        mac = f"52:54:00:00:{number:02x}:{ord(self.name[0]) - ord('a') + 1:02x}"
        return {"driver": driver, "id": f"{wire}-nic", "netdev": wire, "mac": mac}

    def _datagrams(self, wire):
        """A pair of UNIX datagram sockets shared with the peer: one queue.

        Their names are relative to the folder: a socket's whole path is limited to 107 bytes.
        """
        return (f"dgram,id={wire},local.type=unix,local.path={wire}.{self.name},"
                f"remote.type=unix,remote.path={wire}.{self._peer}")

    def _taps(self):
        return (f"tap,id=wire,ifname={taps.name_of(self.name)},script=no,downscript=no,vhost=off,"
                f"queues={self._hardware.queues}")
