#!/usr/bin/env python3
"""Writes the bytes of a file as the elements of a C array.

usage: embed.py FILE OUTPUT
"""

import sys

BYTES_A_LINE = 16


def main():
    with open(sys.argv[1], "rb") as file:
        content = file.read()
    with open(sys.argv[2], "w", encoding="ascii") as output:
        for start in range(0, len(content), BYTES_A_LINE):
            output.write("".join(f"{byte}," for byte in content[start:start + BYTES_A_LINE]) + "\n")


if __name__ == "__main__":
    main()
