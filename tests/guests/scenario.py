"""Boots two guests on one wire, runs a script in each, collects their results."""

import dataclasses
import os
import shutil
import time

import machine
import monitor
import rootfs
import taps

NAMES = ("a", "b")
BOOT_ALLOWANCE_S = 90
SETTLE_S = 1


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    script: str
    mode: str          # "uio" or "vfio": how the NIC is handed to DPDK
    needs_lyre: bool
    limit_s: int       # for the script in the guest
    queues: int = 1    # of the NIC
    has_taps: bool = False   # the wire carries what guests leave to offloads
    nic: str = machine.VIRTIO
    is_pluggable: bool = False
    qemu_version: int = 7    # the oldest that has the NIC
    needs_packages: bool = False


ALL = (
    Scenario("smoke-uio", "smoke.sh", "uio", needs_lyre=False, limit_s=120),
    Scenario("smoke-vfio", "smoke.sh", "vfio", needs_lyre=False, limit_s=120),
    Scenario("lyre-uio", "lyre.sh", "uio", needs_lyre=True, limit_s=280),
    Scenario("lyre-vfio", "lyre.sh", "vfio", needs_lyre=True, limit_s=280),
    Scenario("lyre-queues", "lyre_queues.sh", "uio", needs_lyre=True, limit_s=280, queues=2,
             has_taps=True),
    Scenario("lyre-lro", "lyre_lro.sh", "uio", needs_lyre=True, limit_s=280, has_taps=True),
    Scenario("lyre-lro-queues", "lyre_lro.sh", "uio", needs_lyre=True, limit_s=280, queues=2,
             has_taps=True),
    Scenario("lyre-verbs", "lyre_verbs.sh", "uio", needs_lyre=True, limit_s=400),
    Scenario("lyre-verbs-fault", "lyre_verbs_fault.sh", "uio", needs_lyre=True, limit_s=800),
    Scenario("lyre-verbs-bench", "lyre_verbs_bench.sh", "uio", needs_lyre=True, limit_s=700),
    Scenario("lyre-virtio-bench", "lyre_virtio_bench.sh", "uio", needs_lyre=True, limit_s=1500),
    Scenario("lyre-virtio-vfio-bench", "lyre_virtio_bench.sh", "vfio", needs_lyre=True,
             limit_s=1500),
    Scenario("lyre-virtio", "lyre_nic.sh", "uio", needs_lyre=True, limit_s=1200, is_pluggable=True),
    Scenario("lyre-virtio-vfio", "lyre_nic.sh", "vfio", needs_lyre=True, limit_s=1200,
             is_pluggable=True),
    Scenario("lyre-vmxnet3", "lyre_nic.sh", "uio", needs_lyre=True, limit_s=1200, nic="vmxnet3",
             is_pluggable=True),
    Scenario("lyre-e1000e", "lyre_nic.sh", "vfio", needs_lyre=True, limit_s=1200, nic="e1000e",
             is_pluggable=True),
    Scenario("lyre-igb", "lyre_nic.sh", "vfio", needs_lyre=True, limit_s=1200, nic="igb",
             is_pluggable=True, qemu_version=8),
    Scenario("lyre-igbvf", "lyre_vf.sh", "vfio", needs_lyre=True, limit_s=800, nic="igb",
             is_pluggable=True, qemu_version=8),
    Scenario("lyre-upgrade", "lyre_upgrade.sh", "uio", needs_lyre=True, limit_s=800),
    Scenario("lyre-upgrade-vfio", "lyre_upgrade.sh", "vfio", needs_lyre=True, limit_s=800,
             nic="e1000e"),
    Scenario("walk-uio", "walk.sh", "uio", needs_lyre=False, needs_packages=True, limit_s=900),
    Scenario("walk-vfio", "walk.sh", "vfio", needs_lyre=False, needs_packages=True, limit_s=900),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    exit_codes: dict   # guest name -> exit code of its script; None when it left none
    seconds: float

    @property
    def passed(self):
        return all(code == 0 for code in self.exit_codes.values())


def _prepare(folder, payload):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copytree(os.path.join(rootfs.HERE, "scenarios"), os.path.join(folder, "scenarios"))
    if payload and os.path.isdir(payload):
        shutil.copytree(payload, os.path.join(folder, "packages"))
    elif payload:
        shutil.copy(payload, os.path.join(folder, "lyre.tar"))
    with open(os.path.join(folder, "now"), "w", encoding="utf-8") as f:
        f.write(str(int(time.time())))


def _exit_code(folder, name):
    try:
        with open(os.path.join(folder, f"{name}.rc"), encoding="utf-8") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def _watch(machines, monitors, folder, deadline):
    """Until both have gone, time is up, or one failed (its peer would only wait for it)."""
    while any(m.is_running() for m in machines) and time.monotonic() < deadline:
        time.sleep(0.2)
        for name, connection in monitors.items():
            monitor.serve(folder, name, connection)
        codes = [_exit_code(folder, m.name) for m in machines]
        gone = [not m.is_running() for m in machines]
        if any(code not in (None, 0) or (code is None and dead) for code, dead in zip(codes, gone)):
            time.sleep(SETTLE_S)
            return


def run(scenario, image, folder, emulator, payload=None, hardware=machine.Hardware()):
    """Returns the Outcome; everything that the guests wrote stays in `folder`.

    `emulator`: the words that start QEMU. `payload`: an archive of Lyre's tree, or a folder of
    packages.
    """
    _prepare(folder, payload)
    hardware = dataclasses.replace(hardware, iommu=scenario.mode == "vfio",
                                   queues=scenario.queues, has_taps=scenario.has_taps,
                                   nic=scenario.nic,
                                   is_pluggable=scenario.is_pluggable)
    words = ["guest.scenario=" + scenario.script, "guest.mode=" + scenario.mode,
             "guest.nic=" + hardware.nic_address, f"guest.limit_s={scenario.limit_s}"]
    if scenario.has_taps:
        taps.make(NAMES, scenario.queues)
    started = time.monotonic()
    machines = [machine.Machine(name, peer, folder, image, emulator, hardware)
                for name, peer in zip(NAMES, reversed(NAMES))]
    try:
        for m in machines:
            m.boot(words)
        monitors = {m.name: m.monitor() for m in machines if scenario.is_pluggable}
        _watch(machines, monitors, folder, started + BOOT_ALLOWANCE_S + scenario.limit_s)
    finally:
        for m in machines:
            m.stop()
    codes = {m.name: _exit_code(folder, m.name) for m in machines}
    return Outcome(codes, time.monotonic() - started)


def last_lines(folder, name, count=40):
    """The end of a guest's output, or of its console where it never got to run."""
    for path in (f"{name}.out", f"{name}.console", f"{name}.qemu.log"):
        try:
            with open(os.path.join(folder, path), encoding="utf-8", errors="replace") as f:
                lines = f.read().splitlines()
        except OSError:
            continue
        if lines:
            return [f"{path}: {line}" for line in lines[-count:]]
    return [f"{name}: left no output"]
