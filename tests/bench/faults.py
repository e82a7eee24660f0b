"""How long a fault lasts for two ranks with a comm: from the end of one to the error of the other,
and from the return of a daemon to the next messages."""

import contextlib
import os
import time
import types

from fault_matrix import RECEIVER, SENDER, Rank, Wrong
from measures import HONEST, Failed
from record import Row
from two_hosts import TwoHosts
from wires import DriverWire

GROUP = "faults"
# As long as a service that systemd starts again.
DAEMON_AWAY_S = 1.5


def faults(bench):
    for name, measure, victim in CASES:
        if bench.table.wants(GROUP, name):
            values = [of_pair(bench, measure, victim) for _ in range(bench.rounds)]
            bench.table.add(Row(GROUP, name, "ms", values,
                                "fault_rank 0|1 11, over AF_PACKET", lower_is_better=True))


def of_pair(bench, measure, victim):
    """In milliseconds, by a pair of ranks of its own."""
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(DriverWire("net_af_packet", HONEST))
        hosts = stack.enter_context(TwoHosts(bench.programs, wire=wire))
        daemons = (hosts.a, hosts.b)
        try:
            ranks = [rank_of(bench, stack, index, daemons[index]) for index in (SENDER, RECEIVER)]
            connect(ranks)
            return 1000 * measure(ranks, daemons, victim)
        except Wrong as error:
            raise Failed(str(error)) from error


def connect(ranks):
    ranks[RECEIVER].send_line("handle")
    ranks[SENDER].send_line(ranks[RECEIVER].await_answer("handle"))
    for word in ("connect", "say"):
        for rank in ranks:
            rank.send_line(word)
        for rank in ranks:
            rank.await_answer(word)


def rank_of(bench, stack, index, daemon):
    arguments = types.SimpleNamespace(
        plugin=os.path.join(bench.build, "nccl_adapter/libnccl-net-lyre.so"),
        rank=bench.program("tests/adapter/fault_rank"), abi=11, rails="all")
    rank = Rank(arguments, index, daemon.socket, {})
    stack.callback(rank.end)
    rank.await_answer("ready")
    return rank


def stream(ranks):
    for rank in ranks:
        rank.send_line("stream")
    for rank in ranks:
        rank.await_answer("moved")


def error_during_messages(ranks, _daemons, victim):
    stream(ranks)
    return error_after_end(ranks, victim)


def error_of_a_wait(ranks, _daemons, victim):
    """The receiver has posted a receive."""
    ranks[RECEIVER].send_line("say")
    time.sleep(0.3)
    return error_after_end(ranks, victim)


def error_after_end(ranks, victim):
    began = time.monotonic()
    ranks[victim].process.kill()
    said = ranks[1 - victim].await_answer("error")
    seconds = time.monotonic() - began
    if "its process ended" not in said:
        raise Failed(f"the other rank does not know why: {said}")
    return seconds


def messages_after_return(ranks, daemons, victim):
    stream(ranks)
    daemons[victim].kill()
    time.sleep(DAEMON_AWAY_S)
    daemons[victim].start()
    began = time.monotonic()
    for rank in ranks:
        rank.lines.clear()
    for rank in ranks:
        rank.await_answer("moved")
    return time.monotonic() - began


CASES = [
    ("receiver killed during messages: the sender's error", error_during_messages,
     RECEIVER),
    ("sender killed during messages: the receiver's error", error_during_messages,
     SENDER),
    ("sender killed while a receive waits: its error", error_of_a_wait, SENDER),
    ("sender's daemon back: the next messages", messages_after_return, SENDER),
    ("receiver's daemon back: the next messages", messages_after_return, RECEIVER),
]
GROUPS = {GROUP: faults}
