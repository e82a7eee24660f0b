"""The inputs of a fuzzer: hand-written seeds, the grown corpus, inputs that once failed."""

import os
import zipfile

import seeds

HERE = os.path.dirname(os.path.abspath(__file__))


def packed(target):
    """The grown and minimised corpus of one fuzzer, in one file."""
    return os.path.join(HERE, 'corpus', target + '.zip')


def unpack(target, folder):
    """Writes all inputs into `folder`; returns the paths."""
    inputs = {f'seed-{number}': data for number, data in enumerate(seeds.seeds(target))}
    if os.path.exists(packed(target)):
        with zipfile.ZipFile(packed(target)) as archive:
            inputs.update((name, archive.read(name)) for name in archive.namelist())
    broken = os.path.join(HERE, 'regressions', target)
    for name in sorted(os.listdir(broken)) if os.path.isdir(broken) else []:
        with open(os.path.join(broken, name), 'rb') as file:
            inputs['regression-' + name] = file.read()
    paths = []
    for name, data in inputs.items():
        paths.append(os.path.join(folder, name))
        with open(paths[-1], 'wb') as file:
            file.write(data)
    return paths


def pack(target, inputs):
    """Stores `inputs`, a list of bytes, as the corpus. The same inputs give the same file."""
    os.makedirs(os.path.dirname(packed(target)), exist_ok=True)
    with zipfile.ZipFile(packed(target), 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number, data in enumerate(sorted(inputs)):
            archive.writestr(zipfile.ZipInfo(f'{number:04}', (2026, 1, 1, 0, 0, 0)), data,
                             zipfile.ZIP_DEFLATED)
