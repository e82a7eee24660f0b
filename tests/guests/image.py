"""Turns the Debian root into what QEMU boots: a disk image, a kernel and an initramfs."""

import dataclasses
import os
import shutil
import subprocess

import initramfs
import kernel
import rootfs

DISK_MIB = 2048
MKE2FS_TIMEOUT_S = 300
# Services without use in a guest that runs for a minute.
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
          "e2scrub_reap.service", "fstrim.timer", "getty@tty1.service", "systemd-pstore.service",
          "systemd-timesyncd.service", "dpdk.service", "systemd-update-utmp.service",
          "prometheus.service"]
RECIPE = ["image.py", "kernel.py", "initramfs.py", "init", "root/guest-main", "root/guest.service"]


@dataclasses.dataclass(frozen=True)
class Image:
    disk: str
    kernel: str
    initramfs: str


def ensure(cache, root, root_identity):
    """Returns the Image of `root`, making it again when the root or the recipe has changed."""
    image = Image(*(os.path.join(cache, name) for name in ("disk.ext4", "kernel", "initramfs")))
    stamp_path = os.path.join(cache, "image.stamp")
    stamp = rootfs.digest(root_identity, *(rootfs.read(name) for name in RECIPE))
    try:
        with open(stamp_path, encoding="utf-8") as f:
            if f.read() == stamp:
                return image
    except OSError:
        pass
    print("guests: making the disk image", flush=True)
    _configure(root)
    bzimage, version = kernel.find(root)
    kernel.extract(bzimage, image.kernel)
    initramfs.build(root, version, image.initramfs)
    _make_disk(root, image.disk)
    with open(stamp_path, "w", encoding="utf-8") as f:
        f.write(stamp)
    return image


def _write(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as f:
        f.write(text)


def _link(root, path, target):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.lexists(full):
        os.unlink(full)
    os.symlink(target, full)


def _configure(root):
    units = "etc/systemd/system"
    _write(root, "etc/fstab", "hostshare /host 9p trans=virtio,version=9p2000.L,msize=262144,"
                              "cache=none,noauto 0 0\n")
    _write(root, "etc/hostname", "guest\n")
    _write(root, "etc/machine-id", rootfs.digest("machine")[:32] + "\n")
    os.makedirs(os.path.join(root, "host"), exist_ok=True)
    for unit in MASKED:
        _link(root, f"{units}/{unit}", "/dev/null")
    shutil.copy(os.path.join(rootfs.HERE, "root/guest-main"), os.path.join(root, "usr/local/sbin"))
    shutil.copy(os.path.join(rootfs.HERE, "root/guest.service"), os.path.join(root, units))
    _link(root, f"{units}/multi-user.target.wants/guest.service", "../guest.service")


def _make_disk(root, disk):
    if os.path.exists(disk):
        os.unlink(disk)
    with open(disk, "wb") as f:
        f.truncate(DISK_MIB << 20)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1",
                    "-d", root, disk], check=True, timeout=MKE2FS_TIMEOUT_S)
