"""Lines leave in order, urgent ones first, a begun line whole; what was taken back or lost is never sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.transport.streams import Outbox, WriteTicket, memory_pair


def drain(outbox: Outbox) -> list[bytes]:
    lines: list[bytes] = []
    while (line := outbox.begin()) is not None:
        lines.append(line)
    return lines


def test_urgent_lines_overtake_those_not_begun_and_keep_their_own_order() -> None:
    outbox = Outbox()
    outbox.put(b"1")
    assert outbox.begin() == b"1"
    for line, urgent in ((b"2", False), (b"a", True), (b"3", False), (b"b", True)):
        outbox.put(line, urgent=urgent)
    assert drain(outbox) == [b"a", b"b", b"2", b"3"]


def test_a_line_is_taken_back_only_before_it_is_begun_and_once() -> None:
    outbox = Outbox()
    first, second = outbox.put(b"1"), outbox.put(b"22")
    assert outbox.begin() == b"1"
    assert (first.begun, first.withdraw()) == (True, False)
    assert (second.withdraw(), second.withdraw(), second.begun) == (True, False, False)
    assert outbox.queued_bytes == 0
    assert drain(outbox) == []


def test_closing_loses_what_waits_and_tells_each_once_also_when_told_ones_write_again() -> None:
    outbox = Outbox()
    told: list[str] = []
    for name in ("a", "b"):
        ticket = outbox.put(name.encode())
        ticket.on_lost = lambda name=name: told.append(name + str(outbox.put(b"again").lost))
    outbox.close()
    outbox.close()
    assert told == ["aTrue", "bTrue"]
    assert outbox.put(b"late").lost
    assert drain(outbox) == []
    assert outbox.queued_bytes == 0


@given(st.lists(st.sampled_from(["put", "urgent", "begin", "withdraw", "close"]), max_size=40))
def test_every_line_is_sent_taken_back_or_lost_and_never_twice(steps: list[str]) -> None:
    outbox, tickets, sent = Outbox(), list[WriteTicket](), list[bytes]()
    for number, step in enumerate(steps):
        if step in {"put", "urgent"}:
            tickets.append(outbox.put(b"%d" % number, urgent=step == "urgent"))
        elif step == "begin":
            line = outbox.begin()
            sent += [line] if line is not None else []
        elif step == "withdraw" and tickets:
            tickets[number % len(tickets)].withdraw()
        elif step == "close":
            outbox.close()
        waiting = [ticket for ticket in tickets if ticket.state == "queued"]
        assert outbox.queued_bytes == sum(len(ticket.line) for ticket in waiting)
    assert len(sent) == len(set(sent)) == sum(ticket.begun for ticket in tickets)
    outbox.close()
    assert {ticket.state for ticket in tickets} <= {"begun", "withdrawn", "lost"}


@pytest.mark.anyio
async def test_the_ends_of_a_pair_read_what_the_other_wrote_before_its_end() -> None:
    left, right = memory_pair()
    left.write(b"one\n")
    left.write(b"two\n")
    right.write(b"back\n")
    assert await right.receive() == b"one\ntwo\n"
    left.write(b"last\n")
    await left.aclose()
    assert [await right.receive(), await right.receive(), await right.receive()] == [b"last\n", b"", b""]
    assert [await left.receive(), await left.receive()] == [b"back\n", b""]
    assert right.write(b"late\n").lost


@pytest.mark.anyio
async def test_an_empty_line_is_not_the_end() -> None:
    left, right = memory_pair()
    left.write(b"")
    left.write(b"x")
    assert await right.receive() == b"x"


@pytest.mark.anyio
async def test_a_full_pair_queues_and_shows_how_much() -> None:
    left, right = memory_pair(capacity=1)
    first, second = left.write(b"one"), left.write(b"second")
    urgent = left.write(b"urgent", urgent=True)
    assert (first.begun, second.begun, urgent.begun, left.queued_bytes) == (True, False, False, 12)
    assert [await right.receive() for _ in range(3)] == [b"one", b"urgent", b"second"]
    assert left.queued_bytes == 0
