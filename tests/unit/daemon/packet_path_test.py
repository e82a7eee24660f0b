#!/usr/bin/env python3
"""daemon/packet_path.ld: lyred has the code of the files that it names at one place.
packet_path_test.py BUILD SCRIPT"""

import glob
import os
import re
import subprocess
import sys
import unittest

SCRIPT = sys.argv.pop()
BUILD = sys.argv.pop()


def functions(program):
    """(address, name) of each function that others may call."""
    listed = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tT":
            yield int(fields[0], 16), fields[2]


def named_files():
    """(library, file) of each line of the script."""
    with open(SCRIPT, encoding="utf-8") as file:
        return re.findall(r"^ *\*(\w+)\.a:\*/([\w.]+\.o)\(", file.read(), re.M)


class PacketPath(unittest.TestCase):
    def setUp(self):
        everything = list(functions(os.path.join(BUILD, "daemon/lyred")))
        places = {name: address for address, name in everything}
        begin, end = places["lyre_packet_path_begin"], places["lyre_packet_path_end"]
        self.inside = {name for address, name in everything if begin <= address < end}
        self.outside = set(places) - self.inside

    def test_it_has_the_code_of_each_file_that_the_script_names(self):
        self.assertGreater(len(named_files()), 30)
        for library, name in named_files():
            found = glob.glob(os.path.join(BUILD, f"stack/**/lib{library}.a.p/{name}"),
                              recursive=True)
            self.assertEqual(len(found), 1, f"{library} {name}")
            of_file = {function for _, function in functions(found[0])}
            self.assertTrue(of_file & self.inside, f"{library} {name}")

    def test_other_code_is_elsewhere(self):
        self.assertIn("main", self.outside)
        handover = {name for name in self.outside | self.inside if "HandoverWriter" in name}
        self.assertTrue(handover)
        self.assertFalse(handover & self.inside)


if __name__ == "__main__":
    unittest.main()
