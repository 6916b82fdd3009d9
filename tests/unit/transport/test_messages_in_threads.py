"""Messages of one type that several threads meet for the first time at the same moment, as at the start of a host."""

from __future__ import annotations

import subprocess
import sys

from anabranch.exits import how_it_ended

TOGETHER = """
import sys, threading
from dataclasses import make_dataclass
from anabranch.transport import messages

sys.setswitchinterval(1e-6)

def meet(turn):
    parts = {f"part_{k}": make_dataclass(f"Part{turn}_{k}", [("number", "int"), ("text", "str")]) for k in range(6)}
    whole = make_dataclass(f"Whole{turn}", list(parts.items()), frozen=True)
    said = whole(**{name: part(k, "x") for k, (name, part) in enumerate(parts.items())})
    plain, encoded, packed = messages.to_plain(said), messages.encode(said), messages.pack(said)
    together = threading.Barrier(6)
    ways = (
        lambda: messages.decode(encoded, whole),
        lambda: messages.unpack(packed, whole),
        lambda: messages.from_plain(plain, whole),
    )
    def read(way):
        together.wait()
        assert way() == said
        right.append(turn)
    threads = [threading.Thread(target=read, args=(way,)) for way in 2 * ways]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

right = []
for turn in range(200):
    meet(turn)
print(len(right))
"""


def test_threads_that_read_the_first_messages_of_a_type_read_them_right() -> None:
    ended = subprocess.run([sys.executable, "-c", TOGETHER], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"It {how_it_ended(ended.returncode)}: {ended.stderr}"
    assert ended.stdout == "1200\n"
