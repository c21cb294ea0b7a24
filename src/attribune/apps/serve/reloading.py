"""Models that are exchanged while the service answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView

from attribune.apps.serve.models import RunLoader, ServedModel
from attribune.errors import AttribuneError, ConfigError

__all__ = ["AlreadyLoadingError", "LiveModels", "Reload", "Reloader", "in_background"]

_LOG = logging.getLogger(__name__)

Reload = Callable[[Sequence[str] | None], list[str]]
"""Loads runs, or the same as before, in place of the models that are served; returns a line on each."""


class AlreadyLoadingError(ConfigError):
    """The runs are being loaded again just now."""

    def __init__(self) -> None:
        super().__init__("the runs are being loaded already: wait for that")


class LiveModels(Mapping[str, ServedModel]):
    """The models by name, which can be replaced all at once; requests that have theirs keep them."""

    def __init__(self, models: Mapping[str, ServedModel]) -> None:
        self.current = dict(models)

    def replace(self, models: Mapping[str, ServedModel]) -> None:
        """Serve other models from the next request on."""
        self.current = dict(models)

    def __getitem__(self, name: str) -> ServedModel:
        return self.current[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.current)

    def __len__(self) -> int:
        return len(self.current)

    def values(self) -> ValuesView[ServedModel]:
        """Return the models, all of one time."""
        return self.current.values()

    def items(self) -> ItemsView[str, ServedModel]:
        """Return the models by name, all of one time."""
        return self.current.items()


class Reloader:
    """Loads runs beside the models that answer, and puts them in their place; where that fails, nothing changes.

    Args:
        models: those that are served, under which requests find them.
        loader: loaded them.
    """

    def __init__(self, models: LiveModels, loader: RunLoader) -> None:
        self._models, self._loader = models, loader
        self._prepared: tuple[RunLoader, dict[str, ServedModel]] | None = None
        self._busy = threading.Lock()

    def __call__(self, runs: Sequence[str] | None = None) -> list[str]:
        """Load runs, as on the command line, or the same again, and serve them; returns a line on each.

        Raises:
            AttribuneError: for a run that cannot be loaded, or while another reload is under way.
        """
        if not self._busy.acquire(blocking=False):
            raise AlreadyLoadingError
        try:
            lines = self.prepare(runs)
            self.swap()
            return lines
        finally:
            self._busy.release()

    def prepare(self, runs: Sequence[str] | None = None) -> list[str]:
        """Load runs beside those that answer; returns a line on each, or raises AttribuneError."""
        if self._loader.enrol:
            raise ConfigError(
                "with --enrol the service itself changes its runs, and a value learned during a reload would be "
                "lost: stop the service, and start it again"
            )
        loader = self.loader_of(runs)
        self._prepared = loader, loader.load_beside()
        return [model.summary() for model in self._prepared[1].values()]

    def loader_of(self, runs: Sequence[str] | None) -> RunLoader:
        """Return what loads runs, or the same as before; ConfigError for two of one name."""
        return self._loader.of(runs)

    def swap(self) -> None:
        """Serve what was prepared."""
        if self._prepared is not None:
            self._loader, models = self._prepared
            self._models.replace(models)
        self._prepared = None

    def drop(self) -> None:
        """Forget what was prepared."""
        self._prepared = None


def in_background(reload: Reload, say: Callable[[list[str]], None]) -> None:
    """Load the runs again on a thread of its own.

    Args:
        say: is given the lines on the models; where there are none, the log says why.
    """

    def run() -> None:
        try:
            say(reload(None))
        except Exception as error:
            is_bug = not isinstance(error, AttribuneError)
            _LOG.warning("the runs were not reloaded, and the old ones are still served: %s", error, exc_info=is_bug)

    threading.Thread(target=run, name="attribune-reload", daemon=True).start()
