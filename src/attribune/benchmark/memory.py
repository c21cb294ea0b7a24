"""How much memory a piece of work takes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PeakMemory"]


class PeakMemory:
    """Resident memory of this process beyond what it held when this was made, in MB."""

    def __init__(self) -> None:
        self._before: float | None
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            self._before = self._status("VmRSS")
        except OSError:
            self._before = None

    def grown(self) -> float | None:
        """The peak since then; None where the system does not say."""
        return None if self._before is None else round(self._status("VmHWM") - self._before, 1)

    @staticmethod
    def _status(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name))) / 1024
