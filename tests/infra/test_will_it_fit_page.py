"""docs/will-it-fit.md is true: its tables are computed anew, its commands exist."""

import re
import shlex

import pytest

from infra.cli.main import build_parser
from tests.infra.will_it_fit_tables import MARK, PAGE, TABLES, written

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_its_tables_are_what_the_product_computes(name: str) -> None:
    shown = {found[1]: found[2].splitlines() for found in MARK.finditer(TEXT)}
    assert shown[name] == TABLES[name](), "python -m tests.infra.will_it_fit_tables writes the page anew"


def test_nothing_is_left_to_write() -> None:
    assert written() == TEXT


def test_its_commands_exist() -> None:
    lines = [line.split("  #")[0].strip() for line in TEXT.splitlines() if line.startswith("dormouse ")]
    assert len(lines) >= 6
    for line in lines:
        arguments = shlex.split(line)[1:]
        assert build_parser(arguments).parse_args(arguments).command == arguments[0]


def test_the_prose_agrees_with_the_tables() -> None:
    """576 values a token at two bytes; scales are a tenth of the bytes."""
    assert re.search(r"\| auto \| 1,152 \|", TEXT)
    assert 1152 == 576 * 2
    assert 0.09 < 63_417_876_480 / 595_148_192_736 < 0.11
