#!/usr/bin/env python3
"""Two domains of one daemon: what the clients of one can read and see of the other.

usage: domains_test.py LYRED LYRE LIBLYRE      exit status 77: skipped, with the reason
"""

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import processes
from folders import public_folder
from raw_attach import attach

OWNER_ID, STRANGER_ID, MEMBERS_ID = 54322, 65534, 54333
TIMEOUT_S = 60
SKIPPED = 77
UNREACHABLE, ADDRINUSE, NORESOURCES = -4, -5, -7
ENDED = 2
# Received bytes that are looked for: nothing else on the machine looks like this.
MARK = b"what one domain receives is read by no other: " * 400


class Options(ctypes.Structure):
    """lyre_options."""

    _fields_ = [("struct_bytes", ctypes.c_uint64), ("socket_path", ctypes.c_char_p),
                ("label", ctypes.c_char_p), ("arena_bytes", ctypes.c_uint64)]


class Client:
    """A client of the library."""

    def __init__(self, library, path):
        self.lyre = ctypes.CDLL(library)
        self.context = ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), path.encode(), b"domains", 1 << 20)
        code = self.lyre.lyre_context_open(ctypes.byref(options), ctypes.byref(self.context))
        if code != 0:
            raise OSError(f"lyre_context_open: {code}")

    def address(self, text):
        out = ctypes.create_string_buffer(24)
        if self.lyre.lyre_addr_parse(text.encode(), out) != 0:
            raise ValueError(text)
        return out

    def listen(self, text):
        """The listener, or the error."""
        listener = ctypes.c_void_p()
        code = self.lyre.lyre_listen(self.context, self.address(text), 4,
                                        ctypes.byref(listener))
        return listener if code == 0 else code

    def until(self, is_done):
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError
            self.lyre.lyre_poll(self.context, 1)

    def connect(self, text, local=None):
        session = ctypes.c_void_p()
        if self.lyre.lyre_connect(self.context, local and self.address(local),
                                  self.address(text), ctypes.byref(session)) != 0:
            raise OSError("lyre_connect")
        return session

    def open(self, text, server, listener):
        """A connection to the listener of `server`, another client. Both ends."""
        session, accepted = self.connect(text), ctypes.c_void_p()

        def is_accepted():
            self.lyre.lyre_poll(server.context, 0)
            return self.lyre.lyre_accept(listener, ctypes.byref(accepted)) == 0

        self.until(is_accepted)
        return session, accepted

    def is_direct(self, memory):
        """Whether memory that is registered is sent without a copy."""
        at = (ctypes.c_char * len(memory)).from_buffer(memory)
        region, why = ctypes.c_void_p(), ctypes.c_char_p()
        if self.lyre.lyre_register(self.context, at, ctypes.c_size_t(len(memory)),
                                   ctypes.byref(region)) != 0:
            raise OSError("lyre_register")
        return self.lyre.lyre_region_is_direct(region, ctypes.byref(why))

    def error_of(self, text, local=None):
        """Why a connection cannot be opened."""
        session = self.connect(text, local)
        self.until(lambda: self.lyre.lyre_state(session) == ENDED)
        return self.lyre.lyre_session_error(session)

    def transfer(self, text):
        """Sends the mark to itself and receives it."""
        listener, accepted = self.listen(text), ctypes.c_void_p()
        session = self.connect(text)
        self.until(lambda: self.lyre.lyre_accept(listener, ctypes.byref(accepted)) == 0)
        self.until(lambda: self.lyre.lyre_state(session) == 1)
        self.lyre.lyre_send.restype = self.lyre.lyre_recv.restype = ctypes.c_int64
        if self.lyre.lyre_send(session, MARK, ctypes.c_size_t(len(MARK))) != len(MARK):
            raise OSError("lyre_send")
        got, part = b"", ctypes.create_string_buffer(len(MARK))

        def receive():
            nonlocal got
            count = self.lyre.lyre_recv(accepted, part, ctypes.c_size_t(len(MARK)))
            got += part.raw[:max(count, 0)]
            return len(got) == len(MARK)

        self.until(receive)
        if got != MARK:
            raise OSError("other bytes came")


def has_mark(descriptor):
    size = os.fstat(descriptor).st_size
    if size == 0:
        return False
    try:
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as memory:
            return memory.find(MARK[:200]) >= 0
    except OSError:
        return False  # a pipe or an eventfd


class Domains(unittest.TestCase):
    lyred = lyre = liblyre = ""

    def setUp(self):
        self.folder = public_folder(self)
        self.client_library = shutil.copy(self.liblyre, os.path.join(self.folder, "liblyre.so"))
        os.mkdir(os.path.join(self.folder, "wire"), 0o700)
        self.admin, self.own, self.other = (self.path(f"{name}.sock")
                                            for name in ("admin", "own", "other"))
        self.log = self.path("log")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, domains, mode="0600"):
        config = self.path("lyred.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[daemon]\nsocket = "{self.admin}"\nsocket_group = ""\n'
                       f'socket_mode = "{mode}"\n'
                       f'[workers]\ncores = [{min(os.sched_getaffinity(0))}]\n'
                       '[memory]\nhugepages = "no"\n'
                       '[[port]]\nname = "wire"\naddress = "10.9.0.1/24"\n'
                       f'device = "net_memif0,role=server,socket={self.folder}/wire/w.sock"\n'
                       + domains)
        with open(self.log, "w", encoding="utf-8") as log:
            daemon = processes.start([self.lyred, "--config", config], stderr=log,
                                     env=dict(os.environ, RUNTIME_DIRECTORY=self.folder))
        self.addCleanup(processes.end, daemon)
        deadline = time.monotonic() + TIMEOUT_S
        while "listening on" not in self.said():
            self.assertIsNone(daemon.poll(), self.said())
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.02)

    def start_two(self, extra=""):
        self.start(f'[[domain]]\nname = "own"\nsocket = "{self.own}"\nmode = "0666"\n'
                   f'uids = [{OWNER_ID}]\n'
                   f'[[domain]]\nname = "other"\nsocket = "{self.other}"\nmode = "0666"\n'
                   f'uids = [{STRANGER_ID}]\n' + extra)

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def as_user(self, user, action, group=None, groups=()):
        """Runs `action` as that user until the test ends. What it returned."""
        reader, writer = os.pipe()
        hold, release = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(release)
            try:
                os.setgroups(groups)
                os.setresgid(*[group or user] * 3)
                os.setresuid(user, user, user)
                result = action()
            except BaseException as error:  # whatever it is, the parent has to hear of it
                result = repr(error)
            os.write(writer, json.dumps(result).encode())
            os.close(writer)
            os.read(hold, 1)  # what it holds stays until then
            os._exit(0)
        os.close(writer)
        os.close(hold)

        def end():
            os.close(release)
            os.waitpid(child, 0)

        self.addCleanup(end)
        with os.fdopen(reader, "rb") as answer:
            return json.loads(answer.read())

    def receive_mark(self, path):
        """A client of this user's own receives the mark, and stays."""
        kept = []

        def action():
            kept.append(Client(self.client_library, path))
            kept[0].transfer("10.9.0.1:7000")
            return "received"

        self.assertEqual("received", self.as_user(OWNER_ID, action), self.said())

    def marks_read_by_stranger(self, path):
        kept = []

        def action():
            connection, descriptors = attach(path)
            kept.append(connection)
            return [len(descriptors), sum(has_mark(one) for one in descriptors)]

        found = self.as_user(STRANGER_ID, action)
        self.assertIsInstance(found, list, f"{found}\n{self.said()}")
        self.assertGreater(found[0], 3, self.said())
        return found[1]

    def look(self, path, user, command):
        """What `lyre COMMAND --json` shows to that user."""
        program = self.path("tool")
        if not os.path.exists(program):
            shutil.copy(self.lyre, program)

        def action():
            done = subprocess.run([program, "--socket", path, command, "--json"], check=False,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
            return done.stdout if done.returncode == 0 else done.stderr

        said = self.as_user(user, action) if user else action()
        try:
            return json.loads(said)
        except json.JSONDecodeError:
            self.fail(said)

    def sessions(self, path, user=0):
        return self.look(path, user, "sessions")["sessions"]

    def clients(self, path, user=0):
        """The uid of each client that is shown."""
        return [row["uid"] for row in self.look(path, user, "clients")["clients"]]

    def status(self, path, user=0):
        return self.look(path, user, "status")

    def test_one_domain_shares_what_it_receives(self):
        """So the mark is where it is looked for."""
        self.start("", mode="0666")
        self.receive_mark(self.admin)
        self.assertEqual(1, self.marks_read_by_stranger(self.admin))

    def test_nothing_of_another_domain_is_read_or_seen(self):
        self.start_two()
        self.receive_mark(self.own)
        self.assertEqual(0, self.marks_read_by_stranger(self.other))
        self.wait_for(lambda: len(self.sessions(self.own, OWNER_ID)) >= 3)
        self.assertEqual([], self.sessions(self.other, STRANGER_ID))
        self.wait_for(lambda: len(self.sessions(self.admin)) >= 3)
        self.wait_for(lambda: self.status(self.own, OWNER_ID)["clients"] == 1)
        self.assertEqual("lyre/own", self.status(self.own, OWNER_ID)["name"])
        self.wait_for(lambda: self.status(self.admin)["clients"] == 2)
        # What all domains did together is nobody's but the administrator's.
        shown = self.status(self.own, OWNER_ID)
        self.assertEqual((True, []), (shown["is_domain"], shown["workers"]))
        self.assertEqual([], self.look(self.own, OWNER_ID, "stats")["workers"])
        self.assertEqual(1, len(self.status(self.admin)["workers"]))
        # Its clients are hidden from others, too.
        self.wait_for(lambda: self.clients(self.own, OWNER_ID) == [OWNER_ID])
        self.wait_for(lambda: self.clients(self.other, STRANGER_ID) == [STRANGER_ID])
        self.wait_for(lambda: set(self.clients(self.admin)) == {OWNER_ID, STRANGER_ID})
        # The copies are counted, at the session that receives.
        self.wait_for(lambda: len(MARK) in [row.get("copied_rx_bytes") for row in
                                            self.sessions(self.own, OWNER_ID)])

    def capture(self, path, user=0):
        """Status of a capture that this user tries, and what it said."""
        program = self.path("tool")
        if not os.path.exists(program):
            shutil.copy(self.lyre, program)

        def action():
            done = subprocess.run([program, "--socket", path, "pcap", "wire", "--duration", "0.1"],
                                  check=False, capture_output=True, timeout=TIMEOUT_S)
            return [done.returncode, done.stderr.decode()]

        return self.as_user(user, action) if user else action()

    def test_packets_are_the_administrators(self):
        self.start_two()
        self.assertEqual(0, self.capture(self.admin)[0])
        status, said = self.capture(self.own, OWNER_ID)
        self.assertEqual(1, status, said)
        self.assertIn("ask at the administrator's socket", said)

    def test_packets_of_one_domain_are_the_administrators_too(self):
        self.start("", mode="0666")
        self.assertEqual(0, self.capture(self.admin)[0])
        status, said = self.capture(self.admin, STRANGER_ID)
        self.assertEqual(1, status, said)
        self.assertIn("only root and the daemon's user", said)

    def wait_for(self, is_done):
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.1)

    def await_line(self, text):
        """The daemon may answer before it logs."""
        self.wait_for(lambda: text in self.said())

    def test_sockets_are_for_their_members(self):
        self.start_two()

        def attempt():
            try:
                Client(self.client_library, self.own)
            except OSError as error:
                return str(error)
            return "attached"

        self.assertIn("lyre_context_open", self.as_user(STRANGER_ID, attempt))
        self.await_line(f"uid {STRANGER_ID} gid {STRANGER_ID}: refused: no member of the domain "
                        "'own'")
        with self.assertRaises(OSError):
            Client(self.client_library, self.admin)
        self.await_line("this socket is the administrator's")
        self.assertEqual(0o600, os.stat(self.admin).st_mode & 0o777)

    def test_users_of_a_group_are_members(self):
        self.start(f'[[domain]]\nname = "own"\nsocket = "{self.own}"\nmode = "0666"\n'
                   f'gids = [{MEMBERS_ID}]\n')
        kept = []

        def attempt():
            try:
                kept.append(Client(self.client_library, self.own))
            except OSError as error:
                return str(error)
            return "attached"

        self.assertEqual("attached", self.as_user(OWNER_ID, attempt, group=MEMBERS_ID))
        # More groups than are asked for at once.
        many = [*range(70000, 70100), MEMBERS_ID]
        self.assertEqual("attached", self.as_user(OWNER_ID, attempt, groups=many))
        self.assertIn("lyre_context_open", self.as_user(MEMBERS_ID, attempt, group=OWNER_ID))
        self.await_line(f"uid {MEMBERS_ID} gid {OWNER_ID}: refused: no member of the domain 'own'")

    def test_what_a_domain_may_do_is_limited(self):
        self.start_two('peers = ["10.99.0.0/16"]\nlisten = false\n')
        kept = []

        def own():
            kept.append(Client(self.client_library, self.own))
            low = kept[0].listen("10.9.0.1:1023")
            return [low, isinstance(kept[0].listen("10.9.0.1:7000"), ctypes.c_void_p)]

        def other():
            kept.append(Client(self.client_library, self.other))
            return [kept[0].listen("10.9.0.1:8000"), kept[0].error_of("10.9.0.1:7000")]

        self.assertEqual([UNREACHABLE, True], self.as_user(OWNER_ID, own))
        self.assertEqual([UNREACHABLE, UNREACHABLE], self.as_user(STRANGER_ID, other))

    def test_no_connection_is_opened_from_a_listener_of_another_domain(self):
        """It could be completed by a peer of that listener."""
        self.start_two("listen = false\n")
        kept = []

        def own():
            kept.append(Client(self.client_library, self.own))
            return isinstance(kept[0].listen("10.9.0.1:7000"), ctypes.c_void_p)

        def other():
            kept.append(Client(self.client_library, self.other))
            return kept[0].error_of("10.9.0.99:1", "10.9.0.1:7000")

        self.assertTrue(self.as_user(OWNER_ID, own))
        self.assertEqual(ADDRINUSE, self.as_user(STRANGER_ID, other))

    def test_quotas_are_of_all_clients_of_a_domain(self):
        self.start_two("contexts_max = 2\nlisteners_max = 2\nconnections_max = 5\n"
                       "registered_bytes_max = 0\n")
        kept = []

        def other():
            kept.extend(Client(self.client_library, self.other) for _ in range(2))
            first, second = kept
            listened = [first.listen("10.9.0.1:8000"), second.listen("10.9.0.1:8001")]
            refused = first.listen("10.9.0.1:8002")
            # Each has two ends here: the fifth end is that of a connection that gets no answer.
            for _ in range(2):
                kept.append(second.open("10.9.0.1:8000", first, listened[0]))
            kept.append(first.connect("10.9.0.99:1"))
            fails = second.error_of("10.9.0.1:8000")
            memory = mmap.mmap(-1, 1 << 20)
            try:
                Client(self.client_library, self.other)
                third = "attached"
            except OSError as error:
                third = str(error)
            return [refused, fails, first.is_direct(memory), third.split(":")[0]]

        def own():
            kept.append(Client(self.client_library, self.own))
            return [isinstance(kept[0].listen(f"10.9.0.1:{port}"), ctypes.c_void_p)
                    for port in range(7000, 7004)]

        self.assertEqual([NORESOURCES, NORESOURCES, 0, "lyre_context_open"],
                         self.as_user(STRANGER_ID, other))
        self.assertEqual([True] * 4, self.as_user(OWNER_ID, own))
        self.await_line("as many as it may have (domain.contexts_max)")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: needs root, to be several users")
        sys.exit(SKIPPED)
    Domains.liblyre = sys.argv.pop(3)
    Domains.lyre = sys.argv.pop(2)
    Domains.lyred = sys.argv.pop(1)
    unittest.main()
