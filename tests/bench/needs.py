"""What the measurements need of the machine, checked before the first one."""

import os
import shutil

# The Debian package of each command.
PACKAGES = {"ethtool": "ethtool", "ip": "iproute2", "nsenter": "util-linux", "ping": "iputils-ping",
            "taskset": "util-linux", "valgrind": "valgrind"}
WIRE = ["ethtool", "ip", "nsenter", "taskset"]
# By group. A group that is not here measures over a wire of the kernel's, too.
COMMANDS = {"engine": ["valgrind"], "idle": [*WIRE, "ping"]}
WITHOUT_ROOT = {"engine"}
# In which services are told from other processes by the kernel's groups of a session's threads.
SERVICES = {"as services", "processor seconds a GiB"}
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"


def session_groups(path=AUTOGROUP):
    """Whether each session's threads are a group of the scheduler; None: this kernel has no such
    groups."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return None


def missing(groups, find=shutil.which, uid=None, grouped=session_groups):
    """A line about what the groups need and this machine lacks, or None."""
    wanted = {command for group in groups for command in COMMANDS.get(group, WIRE)}
    absent = sorted(command for command in wanted if find(command) is None)
    if absent:
        packages = " ".join(sorted({PACKAGES[command] for command in absent}))
        return f"{', '.join(absent)} not found: apt-get install {packages}"
    uid = os.geteuid() if uid is None else uid
    if uid != 0 and not set(groups) <= WITHOUT_ROOT:
        return "network namespaces need root"
    if SERVICES & set(groups) and grouped() is False:
        return "threads of a session are no group of the scheduler: " \
               "sysctl kernel.sched_autogroup_enabled=1"
    return None
