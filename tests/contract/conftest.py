"""Every test of a port is run with each of its back ends."""

import pytest

from tests.contract.back_ends import BLOBS, KEYS, LEDGERS, RECORDS


class Opener:
    """Opens one back end as often as asked, and closes all of it at the end."""

    def __init__(self, place, make):
        self.place, self._make, self._opened = place, make, []

    def __call__(self):
        self._opened.append(self._make(self.place))
        return self._opened[-1]

    def close(self):
        for one in self._opened:
            closing = one if hasattr(one, "close") else getattr(one, "_database", None)
            if closing is not None:
                closing.close()


def opener(back_ends):
    @pytest.fixture(params=back_ends)
    def fixture(request, tmp_path):
        found = Opener(tmp_path, back_ends[request.param])
        yield found
        found.close()

    return fixture


open_records, open_keys = opener(RECORDS), opener(KEYS)
open_blobs, open_ledger = opener(BLOBS), opener(LEDGERS)


@pytest.fixture
def records(open_records):
    return open_records()


@pytest.fixture
def keys(open_keys):
    return open_keys()


@pytest.fixture
def blobs(open_blobs):
    return open_blobs()


@pytest.fixture
def ledger(open_ledger):
    return open_ledger()
