"""Folders of tests."""

import os
import shutil
import tempfile


def public_folder(test):
    """A folder that every user may enter, until `test` ends. Not below the build folder, which may
    be closed to other users."""
    folder = tempfile.mkdtemp(prefix="lyre-", dir="/tmp")
    test.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    return folder
