"""Old names: who still uses one is told on which line."""

from __future__ import annotations

import inspect

import pytest

from attribune.core.deprecation import renamed_arguments
from attribune.errors import AttribuneDeprecationWarning


@renamed_arguments(least="min_rows")
def counted(*, min_rows: int) -> int:
    return min_rows


def test_the_line_that_uses_an_old_name_is_blamed() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.warns(AttribuneDeprecationWarning, match=r"counted\(least=\) is now called min_rows=") as caught:
        line, found = frame.f_lineno, counted(least=3)  # type: ignore[call-arg]
    assert found == 3
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_both_names_are_refused() -> None:
    with pytest.raises(TypeError, match="got both 'min_rows' and its old name 'least'"):
        counted(min_rows=1, least=2)  # type: ignore[call-arg]
