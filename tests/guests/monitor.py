"""What the host does to a guest's NIC while the guest runs, by QMP: the cable, and hot plug."""

import json
import os
import socket

TIMEOUT_S = 60
ANNOUNCEMENT = {"initial": 20, "max": 50, "rounds": 100, "step": 5}


class MonitorError(Exception):
    """QEMU refused a command; the text is its answer."""


class Monitor:
    """The QMP connection of one guest. `nic` are the properties with which its NIC is plugged."""

    def __init__(self, path, nic):
        self._nic = nic
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.connect(path)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._next()  # the greeting
        self._execute("qmp_capabilities")

    def perform(self, words):
        """"cable on", "cable off", "announce", "unplug" or "plug"."""
        if words in ("cable on", "cable off"):
            self._execute("set_link", name=self._nic["id"], up=words == "cable on")
        elif words == "announce":
            # As at the end of a migration; times in milliseconds.
            self._execute("announce-self", **ANNOUNCEMENT)
        elif words == "unplug":
            self._execute("device_del", id=self._nic["id"])
        elif words == "plug":
            self._wait_for_removal()
            self._execute("device_add", **self._nic)
        else:
            raise MonitorError(f"no such action: {words}")

    def _next(self):
        line = self._lines.readline()
        if not line:
            raise MonitorError("QEMU closed the connection")
        return json.loads(line)

    def _execute(self, command, **arguments):
        request = json.dumps({"execute": command, "arguments": arguments})
        self._socket.sendall(request.encode() + b"\n")
        answer = self._next()
        while "event" in answer:
            answer = self._next()
        if "error" in answer:
            raise MonitorError(f"{command}: {answer['error']['desc']}")
        return answer["return"]

    def _wait_for_removal(self):
        """The guest sees its device go before QEMU has forgotten it."""
        while self._nic["id"] in self._children("/machine/peripheral"):
            self._next()

    def _children(self, path):
        return [child["name"] for child in self._execute("qom-list", path=path)]


def serve(folder, name, monitor):
    """Does what the guest asks for in `ask.NAME`, and leaves the outcome in `answer.NAME`."""
    request = os.path.join(folder, f"ask.{name}")
    if not os.path.exists(request):
        return
    with open(request, encoding="utf-8") as f:
        words = f.read().strip()
    os.unlink(request)
    try:
        monitor.perform(words)
        outcome = "done"
    except (MonitorError, OSError) as error:
        outcome = str(error)
    part = os.path.join(folder, f"answer.{name}.part")
    with open(part, "w", encoding="utf-8") as f:
        f.write(outcome + "\n")
    os.rename(part, os.path.join(folder, f"answer.{name}"))
