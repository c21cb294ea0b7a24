"""What the processor at hand can do."""

from __future__ import annotations

import pytest

from attribune.backbones.int8 import has_int8

needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor has no instructions for int8")
