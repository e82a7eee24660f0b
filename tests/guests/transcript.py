"""The walk as guest a showed it, in the page for operators."""

import os

import rootfs

PAGE = os.path.join(rootfs.HERE, "../../docs/user/operations.md")
BEGIN = "<!-- written by tests/guests/run --record -->\n"
END = "<!-- end of what was recorded -->\n"


def record(folder):
    """Replaces what the page has between BEGIN and END."""
    with open(os.path.join(folder, "transcript.a"), encoding="utf-8") as file:
        text = "\n".join(line.rstrip() for line in file)
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
        after = rest.split(END)[1]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n```\n{text}\n```\n\n{END}{after}")
