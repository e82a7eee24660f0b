"""One lyred: its configuration, start and stop."""

import json
import os
import re
import select
import signal
import socket
import time
from dataclasses import dataclass, field

import processes

READY_TIMEOUT_S = 60
LINK_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
CHECK_TIMEOUT_S = 60
# Under load the workers may not come to rest for an upgrade: the daemon then says "try again".
REST_TIMEOUT_S = 60
LOOK_TIMEOUT_S = 100
LOG_LINES = 15


class DaemonError(Exception):
    """The daemon failed; the text is for the user."""


@dataclass
class Programs:
    """The programs in a build folder."""

    build: str

    def __post_init__(self):
        self.lyred = self._find("daemon/lyred")
        self.lyre = self._find("tools/lyre/lyre")

    def _find(self, name):
        path = os.path.join(os.path.abspath(self.build), name)
        if not os.access(path, os.X_OK):
            raise DaemonError(f"{path} has not been built")
        return path


@dataclass
class Settings:
    """A configuration. `sections` are further keys: {"tcp": {"user_timeout_ms": 2000}}; those of
    "port" are the port's, and "domains" is a list of names. `address` is one or a list of them."""

    name: str
    device: str
    address: str | list
    core: int
    mtu: int = 1500
    sections: dict = field(default_factory=dict)

    def toml(self, socket_path):
        tables = {
            "daemon": {"name": self.name, "socket": socket_path, "socket_group": ""},
            "workers": {"cores": [self.core]},
        }
        port = {"name": "wire", "device": self.device, "address": self.address, "mtu": self.mtu}
        domains = [{"name": name, "socket": f"{socket_path}.{name}"}
                   for name in self.sections.get("domains", [])]
        for section, keys in self.sections.items():
            if section != "domains":
                (port if section == "port" else tables.setdefault(section, {})).update(keys)
        lines = []
        for title, keys in [(f"[{name}]", keys) for name, keys in tables.items()] + [
                ("[[port]]", port)] + [("[[domain]]", domain) for domain in domains]:
            # What JSON writes for these types, TOML reads.
            lines += [title, *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""]
        return "\n".join(lines)


class Daemon:
    """A daemon that runs from `start()` to `stop()`. All its files are in `folder`.

    `inside` is a command prefix, such as that of a network namespace.
    """

    def __init__(self, programs, settings, folder, inside=()):
        self.name = settings.name
        self.socket = os.path.join(folder, f"{settings.name}.sock")
        self._programs = programs
        self._settings = settings
        self._folder = folder
        self._inside = list(inside)
        self._config = os.path.join(folder, f"{settings.name}.toml")
        self._log_path = os.path.join(folder, f"{settings.name}.log")
        self._process = None
        self._killed = []

    def _write_config(self):
        with open(self._config, "w", encoding="utf-8") as file:
            file.write(self._settings.toml(self.socket))

    def check(self):
        """What `lyred --check` says of the configuration."""
        self._write_config()
        done = processes.run([*self._inside, self._programs.lyred, "--check", "--config",
                              self._config], CHECK_TIMEOUT_S, capture_output=True)
        return done.stdout + done.stderr

    def start(self):
        """Returns once the daemon has reported that it is ready."""
        self._write_config()
        notify_path = os.path.join(self._folder, f"{self.name}.notify")
        # DPDK keeps files while it runs: in our folder, which goes away with the rest.
        environment = dict(os.environ, NOTIFY_SOCKET=notify_path, RUNTIME_DIRECTORY=self._folder)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, \
                open(self._log_path, "wb") as log:
            notify.bind(notify_path)
            self._process = processes.start(
                [*self._inside, self._programs.lyred, "--config", self._config], stdout=log,
                stderr=log, env=environment)
            try:
                self._wait_ready(notify)
            finally:
                os.unlink(notify_path)

    def _wait_ready(self, notify):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if select.select([notify], [], [], 0.05)[0]:
                if b"READY=1" in notify.recv(4096).split(b"\n"):
                    return
            elif self._process.poll() is not None:
                raise DaemonError(f"{self.name} ended while it started\n{self.log_tail()}")
        raise DaemonError(f"{self.name} was not ready within {READY_TIMEOUT_S} s\n"
                          f"{self.log_tail()}")

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def log_tail(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as file:
            return "".join(f"  {self.name}: {line}" for line in file.readlines()[-LOG_LINES:])

    def lyre(self, *arguments):
        """A command line of the lyre tool, and the environment that points it at this daemon."""
        return [self._programs.lyre, *arguments], dict(os.environ, LYRE_SOCKET=self.socket)

    def in_domain(self, name):
        """The environment that points lyre and liblyre at the socket of that domain."""
        return {"LYRE_SOCKET": f"{self.socket}.{name}"}

    def look(self, *arguments):
        """The output of `lyre ARGUMENTS --json`."""
        command, environment = self.lyre(*arguments, "--json")
        done = processes.run(command, LOOK_TIMEOUT_S, capture_output=True, env=environment)
        if done.returncode != 0:
            raise DaemonError(f"lyre {' '.join(arguments)}, status {done.returncode}: "
                              f"{done.stderr.strip()}")
        return json.loads(done.stdout)

    def wait_link(self):
        deadline = time.monotonic() + LINK_TIMEOUT_S
        while not all(port["link_up"] for port in self.look("status")["ports"]):
            if time.monotonic() > deadline:
                raise DaemonError(f"the link of {self.name} stayed down for {LINK_TIMEOUT_S} s\n"
                                  f"{self.log_tail()}")
            time.sleep(0.05)

    def upgrade(self):
        """Runs `lyre upgrade`: another process goes on, and the first one has ended. Returns the
        report. The caller has called processes.adopt_orphans()."""
        report = self._once_at_rest(lambda: self.look("upgrade"))
        self._go_on_as(report["pid"])
        return report

    def reload(self):
        """Upgrades by the command that `systemctl reload` runs (ExecReload= of lyred.service)."""
        self._go_on_as(self._once_at_rest(self._upgrade_by_program))

    def _upgrade_by_program(self):
        done = processes.run([self._programs.lyred, "--config", self._config, "--upgrade"],
                             LOOK_TIMEOUT_S, capture_output=True)
        said = re.match(r"process (\d+), release ", done.stdout)
        if done.returncode != 0 or said is None:
            raise DaemonError(f"lyred --upgrade, status {done.returncode}: {done.stdout.strip()} "
                              f"{done.stderr.strip()}")
        return int(said[1])

    @staticmethod
    def _once_at_rest(ask):
        """What `ask` returns, called again while the daemon says "try again"."""
        deadline = time.monotonic() + REST_TIMEOUT_S
        while True:
            try:
                return ask()
            except DaemonError as error:
                if "try again" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _go_on_as(self, pid):
        before, self._process = self._process, processes.Adopted(pid)
        if before.wait(STOP_TIMEOUT_S) != 0:
            raise DaemonError(f"{self.name}: the process that was replaced ended with status "
                              f"{before.returncode}\n{self.log_tail()}")

    def kill(self):
        """Sends SIGKILL, as the kernel's out-of-memory killer does."""
        self._process.send_signal(signal.SIGKILL)
        # Reaped in stop(): while another process looks at its entry in /proc, a busy kernel without
        # preemption spins there, and a daemon that is to come back would come too late.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._killed.append(self._process)
        self._process = None

    def stop(self):
        """Fails when the daemon does not stop cleanly. Does nothing when it was never started."""
        while self._killed:
            self._killed.pop().wait()
        if self._process is None:
            return
        status = processes.end(self._process, STOP_TIMEOUT_S)
        self._process = None
        if status != 0:
            raise DaemonError(f"{self.name} ended with status {status}\n{self.log_tail()}")
