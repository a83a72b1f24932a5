"""Which processes belong to a tree, from the process table alone."""

import os
import shutil
import subprocess
import sys

import pytest

from sidecar.transport.guardian import MARKER, Process, descendants, parse_ps, process_table

PS = f"""    1     0     1 Ss   /sbin/launchd
  100     1   100 Ss   /usr/bin/agent acp {MARKER}=aa11 PATH=/usr/bin
  101   100   100 S    child {MARKER}=aa11
  102     1   102 S    daemon {MARKER}=aa11 HOME=/Users/a
  103     1   103 S    other {MARKER}=bb22
  104   100   100 Z    (dead)
garbage
  x     1     1 S    y
"""


def test_a_tree_is_everything_below_by_parent_ids_and_the_dead_do_not_count() -> None:
    table = [
        Process(pid, parent, 0, alive)
        for pid, parent, alive in [(3, 2, True), (2, 1, True), (4, 2, False), (5, 4, True), (9, 8, True)]
    ]
    assert sorted(descendants([1], table)) == [2, 3, 5]
    assert descendants([9], table) == []


def test_a_table_that_loops_ends() -> None:
    assert sorted(descendants([1], [Process(1, 2, 0, True), Process(2, 1, 0, True)])) == [2]


def test_a_daemon_is_found_by_its_marker_where_parents_are_lost() -> None:
    table = parse_ps(PS, "aa11")
    assert [row.pid for row in table] == [1, 100, 101, 102, 103, 104]
    assert sorted(descendants([100], table)) == [101, 102]
    assert sorted(descendants([100], parse_ps(PS, ""))) == [101]


def test_the_table_of_this_system_holds_this_process() -> None:
    row = next(row for row in process_table() if row.pid == os.getpid())
    assert (row.parent, row.alive) == (os.getppid(), True)


@pytest.mark.skipif(sys.platform == "win32" or shutil.which("ps") is None, reason="needs ps")
def test_a_real_process_listing_is_read() -> None:
    listed = subprocess.run(
        ["ps", "-axww", "-o", "pid=,ppid=,pgid=,stat=,command="], capture_output=True, text=True, check=True
    ).stdout
    rows = {row.pid: row for row in parse_ps(listed, "")}
    assert rows[os.getpid()].parent == os.getppid()
    assert rows[os.getpid()].session == os.getpgrp()
