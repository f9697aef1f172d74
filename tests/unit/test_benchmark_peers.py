"""The benchmark of the adapters divides round by round, and says what it left out and what was not met."""

import random
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.measure import Bench, Row
from benchmarks.peers import Aim, Figure, Peer
from benchmarks.workload import Workload

RATE, SIZE = (Figure(name="rate", label="put", unit="puts/s"), Figure(name="mb", label="disk", unit="MB"))


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(1)


@pytest.fixture
def bench(tmp_path: Path, workload: Workload) -> Bench:
    return Bench(
        workload=workload,
        rounds=3,
        quick=True,
        directory=tmp_path,
        say=lambda _: None,
        cap_seconds=1.0,
        order=random.Random(7),
    )


def giving(name: str, rates: list[float], mb: float, requires: tuple[str, ...] = ()) -> Peer:
    return Peer(name=name, requires=requires, run=lambda _, number: {"rate": rates[number], "mb": mb})


def row(bench: Bench, *found: Peer, aims: tuple[Aim, ...] = ()) -> Row:
    return peers.compare(bench, name="row", title="a row", peers=found, figures=(RATE, SIZE), aims=aims)


def test_a_round_that_was_slow_for_both_does_not_move_the_ratio(bench: Bench) -> None:
    aim = Aim(figure="rate", label="put", bound="≥", target=3, peer="theirs")
    slow = row(bench, giving("theirs", [100, 10, 50], 1), giving("vault", [200, 20, 100], 1), aims=(aim,))
    (check,) = slow.checks
    assert check.series.values == (2, 2, 2)
    assert check.series.label == "put vs theirs"
    assert not check.met


def test_a_small_part_of_theirs_is_told_as_how_many_times_theirs_is(bench: Bench) -> None:
    aim = Aim(figure="mb", label="disk", bound="≥", target=50, peer="theirs", theirs_over_ours=True)
    (check,) = row(bench, giving("theirs", [1, 1, 1], 60), giving("vault", [1, 1, 1], 1), aims=(aim,)).checks
    assert check.series.median == 60
    assert check.met


def test_what_is_not_installed_is_left_out_with_a_line_and_without_a_target(bench: Bench) -> None:
    aims = (
        Aim(figure="rate", label="put", bound="≥", target=3, peer="theirs"),
        Aim(figure="mb", label="disk", bound="≤", target=3),
    )
    absent = giving("theirs", [1, 1, 1], 1, requires=("a_package_that_is_not_there",))
    found = row(bench, absent, giving("vault", [1, 1, 1], 2), aims=aims)
    assert found.notes == ("theirs skipped: a_package_that_is_not_there is not installed",)
    assert [line.main.label for line in found.lines] == ["vault"]
    assert [check.series.label for check in found.checks] == ["disk"]


def test_every_figure_is_told_as_a_ratio_too(bench: Bench) -> None:
    found = row(bench, giving("theirs", [4, 4, 4], 8), giving("vault", [2, 2, 2], 2))
    assert found.notes == ("vault / theirs: put 0.5, disk 0.25",)


def test_bytes_are_those_of_all_files_below(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 30)
    (tmp_path / "below" / "b").write_bytes(b"x" * 20)
    assert peers.stored(tmp_path, 25) == {"mb": 50 / 1e6, "times": 2}
