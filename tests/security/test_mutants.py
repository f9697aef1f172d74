"""The list of mutants does not rot: each text stands once in its file, each named test is there."""

import re
from pathlib import Path

import pytest

from tests.mutants import listed

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = {mutant.check: mutant for mutant in listed()}


@pytest.mark.parametrize("check", MUTANTS)
def test_a_mutants_text_stands_exactly_once_in_its_file(check):
    mutant = MUTANTS[check]
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old


@pytest.mark.parametrize("check", MUTANTS)
def test_a_mutant_names_tests_that_are_there(check):
    assert MUTANTS[check].tests
    for test in MUTANTS[check].tests:
        file, _, name = test.partition("::")
        name = name.partition("[")[0]
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_every_check_has_one_name_and_there_are_enough():
    assert len(MUTANTS) == len(listed()) >= 25
