#!/usr/bin/env python3
"""abi.py finds each kind of break, and allows what a later release may add.

Every case changes a copy of lyre.h or of the version script, as a careless commit would.
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import abi

HEADER, MAP, DESCRIPTION = None, None, None


class AbiTest(unittest.TestCase):
    def check(self, *changes, map_changes=()):
        """Checks the ABI after regular expressions were replaced in the header and the map."""
        with tempfile.TemporaryDirectory(prefix="lyre-abi.") as folder:
            header = self.changed(HEADER, changes, os.path.join(folder, "lyre.h"))
            version_script = self.changed(MAP, map_changes, os.path.join(folder, "liblyre.map"))
            abi.check(header, version_script, None, DESCRIPTION)

    def changed(self, path, changes, to):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for pattern, replacement in changes:
            text, count = re.subn(pattern, replacement, text, flags=re.M)
            self.assertEqual(count, 1, f"{pattern} is not in {path} once")
        with open(to, "w", encoding="utf-8") as file:
            file.write(text)
        return to

    def test_the_description_has_every_function_of_its_version(self):
        with open(MAP, encoding="utf-8") as file:
            node = re.search(r"^LYRE_0\.1 \{\s+global:(.*?)local:", file.read(), re.S | re.M)
        promised = set(re.findall(r"(\w+);", node.group(1)))
        with open(DESCRIPTION, encoding="utf-8") as file:
            described = set(re.findall(r"elf-symbol name='(\w+)'", file.read()))
        self.assertEqual(promised - described, set())

    def assert_break(self, *changes, map_changes=(), says):
        with self.assertRaisesRegex(abi.Breach, says):
            self.check(*changes, map_changes=map_changes)

    def test_the_header_as_it_is(self):
        self.check()

    # ---- What a later release may do ----

    def test_a_field_behind_a_struct_with_its_size(self):
        self.check((r"^\} lyre_options;", r"  uint64_t more;\n} lyre_options;"),
                   (r"^\} lyre_port;", r"  uint32_t more[4];\n} lyre_port;"))

    def test_a_new_function(self):
        self.check((r"^LYRE_API int lyre_workers", r"LYRE_API int lyre_more(int how);\n\g<0>"),
                   map_changes=[(r"\Z", "LYRE_0.2 { global: lyre_more; } LYRE_0.1;\n")])

    def test_a_new_error_code(self):
        self.check((r"LYRE_E_DESCRIPTORS = -18 ", "LYRE_E_DESCRIPTORS = -18, LYRE_E_MORE = -19 "))

    # ---- What breaks programs ----

    def test_a_field_that_moves(self):
        self.assert_break((r"^  uint32_t mtu_bytes;", ""),
                          (r"^  int32_t is_link_up;", r"\g<0> uint32_t mtu_bytes;"),
                          says="mtu_bytes.*offset changed")

    def test_a_field_that_moves_while_the_struct_grows(self):
        self.assert_break((r"^  uint32_t mtu_bytes;", ""),
                          (r"^  int32_t is_link_up;", r"\g<0> uint32_t mtu_bytes;"),
                          (r"^\} lyre_port;", r"  uint64_t more;\n} lyre_port;"),
                          says="mtu_bytes.*offset changed")

    def test_a_field_between_others(self):
        self.assert_break((r"^  const char\* label;", r"const char* more; \g<0>"),
                          says="label.*offset changed")

    def test_a_field_that_leaves(self):
        self.assert_break((r"^  uint64_t arena_bytes;", ""), (r"^  uint64_t patience_ms;", ""),
                          says="arena_bytes")

    def test_a_field_of_another_type(self):
        self.assert_break((r"^  int32_t is_link_up;", "  uint32_t is_link_up;"), says="is_link_up")

    def test_a_struct_of_fixed_layout_that_grows(self):
        self.assert_break((r"^\} lyre_slice;", r"  uint64_t more;\n} lyre_slice;"),
                          says="lyre_slice")

    def test_padding_that_the_next_field_would_take(self):
        self.assert_break((r"^\} lyre_port;", r"  uint32_t more;\n} lyre_port;"), says="padding")

    def test_a_symbol_that_leaves(self):
        self.assert_break(map_changes=[(r"^    lyre_user;", "")],
                          says="Removed.*\n(.*\n)*.*lyre_user")

    def test_a_symbol_of_another_version(self):
        self.assert_break(map_changes=[(r"^LYRE_0\.1", "LYRE_0.2")], says=r"\d+ Removed")

    def test_a_function_of_another_type(self):
        self.assert_break((r"^LYRE_API int lyre_workers", "LYRE_API int64_t lyre_workers"),
                          says="return type changed")
        self.assert_break((r"lyre_shutdown\(lyre_session\* session", r"\g<0>, int how"),
                          says="parameter 2")

    def test_an_enumerator_of_another_value(self):
        self.assert_break((r"LYRE_EVENT_SENT = 8,", "LYRE_EVENT_SENT = 64,"),
                          says="LYRE_EVENT_SENT")
        self.assert_break((r"LYRE_OPTION_CORK,", "LYRE_OPTION_MORE, LYRE_OPTION_CORK,"),
                          says="LYRE_OPTION_CORK")


if __name__ == "__main__":
    if (tool := abi.missing_tool()) is not None:
        print(f"SKIP: no {tool} on this machine: tools/install-dependencies")
        sys.exit(abi.SKIPPED)
    HEADER, MAP, DESCRIPTION = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
