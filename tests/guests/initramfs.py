"""A minimal initramfs: busybox, the modules that reach the root disk, one script."""

import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "9pnet_virtio", "9p"]
DIRECTORIES = ["bin", "dev", "proc", "sys", "new", "m"]
DIRECTORY_MODE, EXECUTABLE_MODE, FILE_MODE = 0o040755, 0o100755, 0o100644


class NewcWriter:
    """Writes a cpio archive in the format that the kernel unpacks (buffer-format.rst, "070701")."""

    def __init__(self, out):
        self._out = out
        self._inode = 0

    def add(self, name, mode, data=b""):
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._out.write(self._padded(header + encoded) + self._padded(data))

    def close(self):
        self.add("TRAILER!!!", 0)

    @staticmethod
    def _padded(data):
        return data + b"\0" * (-len(data) % 4)


def module_files(root, version):
    """The module files in load order, relative to the root, each once."""
    files = []
    for module in MODULES:
        show = subprocess.run(["chroot", root, "modprobe", "-S", version, "--show-depends", module],
                              capture_output=True, text=True, check=True, timeout=30)
        for line in show.stdout.splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    return files


def _bytes(path):
    with open(path, "rb") as f:
        return f.read()


def build(root, version, out):
    with open(out, "wb") as f:
        archive = NewcWriter(f)
        for name in DIRECTORIES:
            archive.add(name, DIRECTORY_MODE)
        archive.add("bin/busybox", EXECUTABLE_MODE, _bytes(os.path.join(root, "bin/busybox")))
        archive.add("init", EXECUTABLE_MODE, _bytes(os.path.join(HERE, "init")))
        order = []
        for path in module_files(root, version):
            name = "m/" + os.path.basename(path)
            archive.add(name, FILE_MODE, _bytes(root + path))
            order.append("/" + name)
        archive.add("m/order", FILE_MODE, ("\n".join(order) + "\n").encode())
        archive.close()
