"""The lines that a worker has, and those that wait for it."""

from dragoman.serving.workers.line_window import LineWindow


def test_groups_take_turns() -> None:
    sent: list[bytes] = []
    window = LineWindow(sent.append, lines=2)
    for number in range(1, 5):
        window.add(number, 1, b"a%d" % number)
    assert sent == [b"a1", b"a2"]
    # The window is full, but these groups have nothing in it.
    window.add(5, 2, b"b5")
    window.add(6, 2, b"b6")
    window.add(7, 3, b"c7")
    assert sent[2:] == [b"b5", b"c7"]
    window.finish(1)
    window.finish(2)
    # The group that has no line left is served first, although the window is full.
    assert sent[4:] == [b"a3"]
    window.finish(7)
    window.finish(5)
    assert sent[5:] == [b"b6"]
    window.finish(6)
    assert sent[6:] == [b"a4"]


def test_lines_that_wait_are_withdrawn() -> None:
    sent: list[bytes] = []
    window = LineWindow(sent.append, lines=1)
    for number in range(1, 4):
        window.add(number, 1, b"%d" % number)
    assert [window.withdraw(number, 1) for number in (1, 2, 2, 9)] == [False, True, False, False]
    assert not window.withdraw(3, 2)
    window.finish(1)
    # What is answered twice counts once.
    window.finish(1)
    assert sent == [b"1", b"3"]
