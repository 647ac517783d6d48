"""SIMT kernels that are split at their barriers: each gives what its threads give as fibers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.simt_programs import SPLIT

from tilewright.cpp.host import fission


def test_kernels_give_the_same_in_every_way_of_running_them(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(SPLIT)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    names = ("reduce", "nested", "counters", "votes", "lanes", "lanes")
    wanted = [f"{name} same 1 cudaSuccess" for name in names for _ in range(2)]
    assert done.stdout.splitlines() == [*wanted, "cudaErrorLaunchFailure"]
    line = next(i for i, text in enumerate(SPLIT.split("\n"), 1) if "i < t" in text)
    reason = "a barrier that not all threads of the block reach: others have left its loop"
    assert done.stderr.splitlines() == [f"tilewright: {program}:{line}: {reason}"]


BODY = """entry:
  %x = alloca i32, align 4
  %once = alloca i32, align 4
  store i32 %tw.c0, ptr %x, align 4
  store i32 %tw.c1, ptr %x, align 4
  store i32 1, ptr %once, align 4
  br label %loop
loop:
  %wait = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)
  %v = load i32, ptr %x, align 4
  %more = icmp ugt i32 %v, %tw.outcome
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_what_lives_across_a_barrier_is_kept_for_each_thread() -> None:
    kernel = fission.split(BODY)
    assert kernel is not None
    assert [(b.line, b.result) for b in kernel.barriers] == [(7, "%wait"), (7, None)]  # and the end of the loop
    assert [[block.label for block in region] for region in kernel.regions] == [
        ["entry", "loop"],
        ["tw.after1", "loop", "tw.leave2"],
        ["end"],
    ]
    assert (kernel.frame, kernel.uniform) == (["%x"], [])
    once = fission.split(BODY.replace("  store i32 %tw.c1, ptr %x, align 4\n", ""))
    assert once is not None and once.frame == [] and once.recomputed["%x"] == ["  store i32 %tw.c0, ptr %x"]


COUNTER = """entry:
  %d = alloca i32, align 4
  store i32 128, ptr %d, align 4
  br label %loop
loop:
  %wait = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)
  %v = load i32, ptr %d, align 4
  %mine = icmp slt i32 %tw.c0, %v
  br i1 %mine, label %some, label %join
some:
  store float 1.0, ptr %p, align 4
  br label %join
join:
  %half = sdiv i32 %v, 2
  store i32 %half, ptr %d, align 4
  %more = icmp sgt i32 %half, %tw.c3
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("sdiv i32 %v, 2", "sdiv i32 %v, %tw.c3", True),
        ("sdiv i32 %v, 2", "add i32 %tw.outcome, %n", True),
        ("sdiv i32 %v, 2", "sdiv i32 %v, %tw.c1", False),
        ("store float 1.0, ptr %p", "store i32 1, ptr %d", False),
        ("%half = sdiv i32 %v, 2", "%half = load i32, ptr %p, align 4", False),
        ("store float 1.0, ptr %p, align 4", "store ptr %d, ptr %p, align 4", False),
        ("br i1 %more, label %loop", "br i1 %mine, label %join", False),
    ],
)
def test_what_is_the_same_for_a_block_is_kept_once(old: str, new: str, same: bool) -> None:
    kernel = fission.split(COUNTER.replace(old, new))
    assert kernel is not None
    assert kernel.uniform == (["%d"] if same else []) and kernel.frame == ([] if same else ["%d"])


@pytest.mark.parametrize("line", ["  %p = phi i32 [ 0, %entry ]", "  %n = alloca i32, i64 %v"])
def test_what_cannot_be_split_is_left_to_fibers(line: str) -> None:
    assert fission.split(BODY.replace("end:\n", f"end:\n{line}\n")) is None
