"""What the coordinator asks of a worker."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from rota_sdk import limits
from rota_sdk.gen.rota.worker.v1 import worker_pb2

log = logging.getLogger("rota_sdk.directives")

Action = Callable[[worker_pb2.Directive], None]


class Directives:
    """Carries out each directive once, however often and over whichever call it comes.

    Kinds without an action are logged and acknowledged, since they would be repeated for ever.
    """

    def __init__(self, actions: Mapping[int, Action], acknowledge: Callable[[list[int]], None]) -> None:
        self._actions = actions
        self._acknowledge = acknowledge
        self._done: OrderedDict[int, None] = OrderedDict()

    def handle(self, directives: Iterable[worker_pb2.Directive]) -> None:
        """Acts and acknowledges. From any thread; two threads at once may act twice, which every action bears."""
        acked = []
        for directive in directives:
            known = directive.id and directive.id in self._done
            if not known:
                self._act(directive)
            if directive.id:
                acked.append(directive.id)
                self._done[directive.id] = None
        while len(self._done) > limits.DIRECTIVES_KEPT:
            self._done.popitem(last=False)
        if acked:
            self._acknowledge(acked)

    def _act(self, directive: worker_pb2.Directive) -> None:
        action = self._actions.get(directive.kind)
        if action is None:
            log.warning("directive %d of unknown kind %d ignored", directive.id, directive.kind)
            return
        log.info(
            "directive %s%s%s",
            worker_pb2.DirectiveKind.Name(directive.kind).removeprefix("DIRECTIVE_KIND_"),
            f" {directive.job}" if directive.job else "",
            f": {directive.reason}" if directive.reason else "",
        )
        try:
            action(directive)
        except Exception:
            log.exception("directive %d failed", directive.id)
