"""Builds trees of tensors in a separate thread, so that keys work while a hundred thousand tensors are sorted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from gputui.explain.tensors.request import Tree, TreeRequest, build_tree

Take = Callable[[Tree], None]


class TreeThread:
    """One daemon thread, started at the first request. Of one view's waiting requests, only the newest is built."""

    def __init__(self, hand_over: Callable[[Callable[[], None]], object]) -> None:
        """`hand_over` has a function called in the application's thread."""
        self._hand_over = hand_over
        self._waiting: dict[Take, tuple[TreeRequest, Tree]] = {}
        self._is_stopped = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def build(self, request: TreeRequest, earlier: Tree, take: Take) -> None:
        """Request a tree; returns at once."""
        with self._changed:
            self._waiting[take] = (request, earlier)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gputui-trees", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for the tree that is being built."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_stopped)
                if self._is_stopped:
                    return
                take = next(iter(self._waiting))
                request, earlier = self._waiting.pop(take)
            tree = build_tree(request, earlier)
            if not self._is_stopped:
                self._hand_over(partial(take, tree))
