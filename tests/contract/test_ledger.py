"""What a ledger of signed entries promises."""

import threading

import pytest

from vault.errors import Conflict, StorageUnavailable
from vault.ports.ledger import LedgerFile


def entry(number, content=None):
    return LedgerFile(number=number, content=content or f"entry {number}\n".encode())


def test_entries_come_back_as_they_were_appended_in_order_of_their_numbers(ledger, open_ledger):
    """K4"""
    assert ledger.numbers() == []
    for number in (1, 2, 3, 9, 10, 11):
        ledger.append(entry(number))
    for opened in (ledger, open_ledger()):
        assert opened.numbers() == [1, 2, 3, 9, 10, 11]
        assert [opened.read(number) for number in opened.numbers()] == [
            entry(n) for n in (1, 2, 3, 9, 10, 11)
        ]


def test_an_entry_is_never_replaced(ledger):
    """K4"""
    ledger.append(entry(1))
    ledger.append(entry(1))  # the same again says nothing new
    with pytest.raises(Conflict):
        ledger.append(entry(1, b"another history"))
    assert ledger.read(1) == entry(1)
    assert ledger.numbers() == [1]


def test_an_entry_may_be_any_bytes(ledger):
    """K4"""
    content = bytes(range(256)) * 5_000
    ledger.append(entry(7, content))
    assert ledger.read(7).content == content


def test_an_entry_that_is_not_there_cannot_be_read(ledger):
    """K4"""
    with pytest.raises(StorageUnavailable):
        ledger.read(1)


def test_of_many_that_append_the_same_number_one_wins(ledger, open_ledger):
    """K4: two processes write a checkpoint at once"""
    ledgers, won, lost = [ledger, open_ledger(), open_ledger()], [], []

    def append(which):
        for number in range(1, 9):
            try:
                ledgers[which].append(entry(number, bytes([which])))
                won.append((number, which))
            except Conflict:
                lost.append((number, which))

    threads = [threading.Thread(target=append, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.numbers() == list(range(1, 9))
    assert sorted(won) == [(number, ledger.read(number).content[0]) for number in range(1, 9)]
    assert len(lost) == 16
