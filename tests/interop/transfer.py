"""One run of `lyre perf` between the two hosts of a test bed."""

import json
import subprocess

import processes

START_TIMEOUT_S = 60


class TransferFailed(AssertionError):
    pass


def run(server, client, timeout_s):
    """The client's and the server's report; each side is (command, environment).

    subprocess.TimeoutExpired where one of them hangs.
    """
    command, environment = server
    serving = processes.start(command, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    try:
        if "listening" not in processes.read_line(serving, START_TIMEOUT_S):
            raise TransferFailed("the server does not start")
        command, environment = client
        asked = processes.run(command, timeout_s, env=environment, capture_output=True)
        if asked.returncode != 0 or asked.stderr:
            raise TransferFailed(f"the client, status {asked.returncode}: {asked.stderr.strip()}")
        out, said = serving.communicate(timeout=timeout_s)
        if serving.returncode != 0 or said:
            raise TransferFailed(f"the server, status {serving.returncode}: {said.strip()}")
    finally:
        processes.end(serving)
        serving.stdout.close()
        serving.stderr.close()
    return json.loads(asked.stdout), json.loads(out)


def check_sides(here, there, count):
    """Checks that each side received what the other sent, by byte count and hash."""
    if not {"sent", "received"} & here.keys():
        raise TransferFailed(f"nothing was transferred: {here}")
    for flow, mirror in (("sent", "received"), ("received", "sent")):
        if (flow in here) != (mirror in there):
            raise TransferFailed(f"{flow} is in one report only")
        if flow not in here:
            continue
        one, other = here[flow], there[mirror]
        is_equal = one["sha256_equal"] and one["sha256"] == other["sha256"]
        if one["bytes"] != count or not one["intact"] or not is_equal:
            raise TransferFailed(f"{flow} {one} but {mirror} {other}")
