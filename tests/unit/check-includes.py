#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an #include that points up the house.

proto knows nobody; probes know proto; client knows proto; daemon knows proto and probes. Inside
proto, base knows nobody and the other rooms know base (shm and unwind each other not); shm also
knows the prefix of ring records, etl/record.h.

Usage: check-includes.py SOURCE_ROOT; check-includes.py --self-test shows that it can fail.
"""
import os
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SUFFIXES = ('.c', '.h', '.cpp', '.hpp', '.def')
ROOMS = {
    'proto': ('proto',),
    'probes': ('probes', 'proto'),
    'client': ('client', 'proto'),
    'daemon': ('daemon', 'proto', 'probes'),
}
# Where the compiler looks for "room/file.h", as the meson files say.
SEARCH = ('proto', 'daemon', 'client/lib', 'client/include', 'client', 'probes', '')


def sources(root):
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def resolve(root, path, name):
    """The file of the tree that is meant; None for what is generated or not ours."""
    for base in (os.path.dirname(path),) + SEARCH:
        target = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, target)):
            return target
    return None


def allowed(path, target):
    if target.split('/')[0] not in ROOMS[path.split('/')[0]]:
        return False
    if path.startswith('proto/') and path.count('/') > 1:
        room = '/'.join(path.split('/')[:2])
        return target.startswith((room + '/', 'proto/base/')) or (
            room == 'proto/shm' and target == 'proto/etl/record.h')
    return True


def check(root):
    bad = []
    for path in sorted(sources(root)):
        with open(os.path.join(root, path), encoding='utf-8') as f:
            text = f.read()
        for name in INCLUDE.findall(text):
            target = resolve(root, path, name)
            if target and not allowed(path, target):
                bad.append(f'{path}: includes "{name}" ({target}), which points up')
    return bad


def self_test():
    good = (
        ('proto/etl/x.c', '../base/a.h'),
        ('proto/etl/x.c', 'b.h'),
        ('proto/shm/x.c', '../etl/record.h'),
        ('daemon/io/x.c', 'base/a.h'),
        ('daemon/io/x.c', 'p.h'),
        ('client/lib/x.c', 'wire/c.h'),
        ('probes/x.c', 'etl/b.h'),
        ('daemon/io/x.c', 'generated.h'),
    )
    bad = (
        ('proto/base/x.c', '../etl/b.h'),
        ('proto/base/x.c', 'etl/b.h'),
        ('proto/base/x.c', '../etl/record.h'),
        ('proto/shm/x.c', '../etl/b.h'),
        ('proto/etl/x.c', '../wire/c.h'),
        ('proto/wire/x.c', 'etl/b.h'),
        ('proto/wire/x.c', '../../daemon/io/d.h'),
        ('probes/x.c', 'io/d.h'),
        ('client/lib/x.c', 'io/d.h'),
        ('client/lib/x.c', '../../daemon/io/d.h'),
        ('daemon/io/x.c', '../../client/lib/l.h'),
    )
    with tempfile.TemporaryDirectory() as root:
        for path in ('proto/base/a.h', 'proto/etl/b.h', 'proto/etl/record.h', 'proto/wire/c.h',
                     'proto/shm/s.h', 'probes/p.h', 'client/lib/l.h', 'daemon/io/d.h'):
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8'):
                pass
        wrong = []
        for cases, expected in ((good, 0), (bad, 1)):
            for path, name in cases:
                with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
                    f.write(f'/* text */\n#include <stdio.h>\n#include "{name}"\n')
                if len(check(root)) != expected:
                    wrong.append(f'{path}: "{name}" was judged wrongly')
                os.unlink(os.path.join(root, path))
        return wrong


def main():
    problems = self_test() if sys.argv[1:] == ['--self-test'] else check(sys.argv[1])
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
