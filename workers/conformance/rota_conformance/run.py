"""One case against one program: the steps in order, then what is expected, then the rules."""

import re
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rota_conformance import rules
from rota_conformance.case import Case, Language
from rota_conformance.coordinator import API_KEY, Coordinator, refusal, shifted
from rota_conformance.matching import differences, plain
from rota_conformance.program import Program

LEAVE_S = 20.0
SPANS = {"lease_ttl": 15.0, "delivery_ttl": 5.0, "beat_interval": 5.0, "max_wait": 10.0}


class Broken(AssertionError):
    """The worker did not do what the case expects."""


class Run:
    def __init__(self, case: Case, language: Language, root: Path) -> None:
        self.case = case
        self.root = root
        self.language = language
        unknown = set(case.coordinator) - set(SPANS)
        assert not unknown, f"{case.name}: unknown spans {unknown}"
        self.server = Coordinator(**{**SPANS, **case.coordinator})
        self.program: Program | None = None

    def verdict(self) -> list[str]:
        """What is wrong; empty: the case passes."""
        told: list[str] = []
        given = {"queues": ["default"], "slots": 4, "drain_timeout": 10.0, **self.case.worker}
        config = {"address": self.server.address, "api_key": API_KEY, **given}
        for name, step in self.case.before:
            getattr(self, f"_{name}")(step)
        self.program = Program(self.language.command, self.root, config, self._wake)
        try:
            self.wait(lambda: self.server.of("OpenSession"), "OpenSession", self.language.start_s + 10.0)
            for name, step in self.case.steps:
                getattr(self, f"_{name}")(step)
        except AssertionError as error:
            told.append(str(error))
        try:
            code = self.program.stop(LEAVE_S)
            if not told:
                told += self._expectations(code)
                told += rules.broken(self.server, self.program.events, self.case.rules_off)
        finally:
            self.server.close()
        if told and self.program.errors:
            told.append(f"its standard error ends with:\n{self.program.errors}")
        return told

    def wait(self, condition: Callable[[], object], what: str, within_s: float | None = None) -> None:
        program = self.program

        def met() -> object:
            if condition():
                return True
            if program is not None and program.exit_code is not None and "exit" not in what:
                raise Broken(f"waited for {what}; the program ended with code {program.exit_code}")
            return False

        self.server.wait(met, what, within_s or self.case.within_s)

    def _wake(self) -> None:
        with self.server.cond:
            self.server.cond.notify_all()

    # Steps

    def _offer(self, step: Mapping[str, Any]) -> None:
        given = step["offer"] if isinstance(step["offer"], list) else [step["offer"]]
        self.server.offer(*[self._lease(each) for each in given])

    def _lease(self, given: Mapping[str, Any] | str) -> Any:
        given = {"id": given} if isinstance(given, str) else dict(given)
        if given["id"] in self.server.leases and len(given) == 1:
            return self.server.leases[given["id"]]
        off = given.pop("clock_off", None)
        lease = self.server.new_lease(given)
        if off is not None:
            lease.due_time.CopyFrom(shifted(off))
            lease.nominal_time.CopyFrom(shifted(off))
        return lease

    def _answer(self, step: Mapping[str, Any]) -> None:
        for given in step.get("leases", ()):
            self._lease(given)
        self.server.script(step["answer"], *(self.server.scripted(given) for given in step["with"]))

    def _statuses(self, step: Mapping[str, Any]) -> None:
        for name, statuses in step["statuses"].items():
            self.server.answer_for(self.server.leases[name].job, *(refusal(each) for each in statuses))

    def _await(self, step: Mapping[str, Any]) -> None:
        wanted = step["await"]
        times = step.get("times", 1)
        if wanted == "exit":
            assert self.program is not None
            self.wait(lambda: self.program and self.program.exit_code is not None, "exit", step.get("within"))
            return
        self.wait(
            lambda: len(self._found(wanted, step)) >= times,
            f"{times} × {wanted} {step.get('job', '')} {step.get('has', '')}",
            step.get("within"),
        )

    def _quiet(self, step: Mapping[str, Any]) -> None:
        wanted = step["quiet"]
        before = len(self._found(wanted, step))
        time.sleep(float(step["for"]))
        found = self._found(wanted, step)[before:]
        if found:
            raise Broken(f"expected no {wanted} {step.get('job', '')} for {step['for']} s, found {found[0]}")

    def _direct(self, step: Mapping[str, Any]) -> None:
        directive = self.server.directive({"kind": step["direct"], **step})
        self.server.direct(directive.kind, directive.job, directive.fence, directive.reason)

    def _streams(self, step: Mapping[str, Any]) -> None:
        if step["streams"] == "refuse":
            self.server.refuse_streams = refusal(step)
        self.server.cut_streams(None if step["streams"] == "end" else refusal(step))

    def _mute(self, step: Mapping[str, Any]) -> None:
        self.server.mute = bool(step["mute"])
        self._wake()

    def _expire(self, step: Mapping[str, Any]) -> None:
        self.server.expire(self.server.sessions[-1])

    def _coordinator(self, step: Mapping[str, Any]) -> None:
        if step["coordinator"] == "goaway":
            self.server.goaway()
        elif step["coordinator"] == "stop":
            self.server.stop()
        else:
            self.server.start()

    def _signal(self, step: Mapping[str, Any]) -> None:
        assert self.program is not None
        self.program.signal(step["signal"])

    def _finish(self, step: Mapping[str, Any]) -> None:
        assert self.program is not None
        self.program.tell({"finish": self.server.leases[step["finish"]].job})

    def _pause(self, step: Mapping[str, Any]) -> None:
        time.sleep(float(step["pause"]))

    # What came

    def _found(self, wanted: str, step: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Calls, outcomes or events of a name that fit the step's `job` and `has`."""
        assert self.program is not None
        job = self.server.leases[step["job"]].job if "job" in step else None
        if wanted == "result":
            found = [plain(result) for result in self.server.results]
        elif wanted == "beat":
            found = [plain(beat) for beat in self.server.beats]
        elif wanted == "hello":
            found = [plain(hello) for hello in self.server.hellos]
        elif wanted[0].isupper():
            found = [plain(request) for request in self.server.of(wanted)]
        else:
            found = [event for event in list(self.program.events) if event["event"] == wanted]
        if job is not None:
            found = [each for each in found if each.get("job") == job]
        has = step.get("has") or {}
        return [each for each in found if not differences(each, has, self._resolve)]

    def _resolve(self, wanted: Any) -> Any:
        """`$a.fence` is a field of the lease that the case calls a."""
        if isinstance(wanted, str) and wanted.startswith("$"):
            name, _, field = wanted[1:].partition(".")
            if name == "session":
                return self.server.sessions[int(field or len(self.server.sessions)) - 1]
            value = getattr(self.server.leases[name], field)
            return int(value) if isinstance(value, int) else value
        return wanted

    # Expectations

    def _expectations(self, code: int | None) -> list[str]:
        told = []
        if code is None:
            told.append(f"the program did not leave within {LEAVE_S:g} s of SIGTERM")
        wants_exit = [check for name, check in self.case.expect if name == "exit"]
        if not wants_exit and code not in (0, None):
            told.append(f"expected exit code 0, found {code}")
        for name, check in self.case.expect:
            if name == "exit":
                if code not in (check["exit"] if isinstance(check["exit"], list) else [check["exit"]]):
                    told.append(f"expected exit code {check['exit']}, found {code}")
            else:
                told += [f"{check[name]}: {words}" for words in getattr(self, f"_check_{name}")(check)]
        return told

    def _check_call(self, check: Mapping[str, Any]) -> list[str]:
        found = [plain(request) for request in self.server.of(check["call"])]
        nth = check.get("nth", -1)
        if not -len(found) <= nth < len(found):
            return [f"expected one more than {nth} calls, found {len(found)}"]
        return differences(found[nth], check["has"], self._resolve)

    def _check_equal(self, check: Mapping[str, Any]) -> list[str]:
        values = self._values(check["equal"], check)
        return [] if len(set(values)) == 1 else [f"expected equal {check['field']}, found {values}"]

    def _check_differ(self, check: Mapping[str, Any]) -> list[str]:
        values = self._values(check["differ"], check)
        return [] if len(set(values)) == len(values) else [f"expected different {check['field']}, found {values}"]

    def _values(self, name: str, check: Mapping[str, Any]) -> list[str]:
        found = self._found(name, {key: value for key, value in check.items() if key in ("job", "has")})
        return [str(found[n][check["field"]]) if n < len(found) else f"(no {n})" for n in check["nth"]]

    def _check_result(self, check: Mapping[str, Any]) -> list[str]:
        """The first outcome of a job; `none: true`: there is none."""
        lease = self.server.leases[check["result"]]
        found = [r for r in self.server.results if r.job == lease.job]
        if check.get("none"):
            return [f"expected no outcome, found {plain(found[0])}"] if found else []
        if not found:
            return ["expected an outcome, found none"]
        return differences(plain(found[0]), check["has"], self._resolve)

    def _check_event(self, check: Mapping[str, Any]) -> list[str]:
        job = self.server.leases[check["job"]].job if "job" in check else None
        assert self.program is not None
        found = [e for e in self.program.events if e["event"] == check["event"] and job in (None, e.get("job"))]
        if check.get("none"):
            return [f"expected none, found {found[0]}"] if found else []
        if not found:
            return ["expected one, found none"]
        return differences(found[0], check.get("has") or {}, self._resolve)

    def _check_logged(self, check: Mapping[str, Any]) -> list[str]:
        """One line of the log names job, attempt and fence."""
        lease = self.server.leases[check["logged"]]
        names = re.compile(rf"(?=.*{lease.job}\b)(?=.*\battempt\W{lease.attempt}\b)(?=.*\bfence\W{lease.fence}\b)")
        assert self.program is not None
        if any(names.search(line) for line in self.program.errors.splitlines()):
            return []
        return ["expected a line of its log with job, attempt and fence, found none"]

    def _check_count(self, check: Mapping[str, Any]) -> list[str]:
        number = len(self._found(check["count"], check))
        least, most = check.get("at_least", check.get("is", 0)), check.get("at_most", check.get("is", float("inf")))
        return [] if least <= number <= most else [f"expected {least} to {most} of them, found {number}"]

    def _check_connections(self, check: Mapping[str, Any]) -> list[str]:
        peers = {call.peer for call in self.server.calls}
        least = check["connections"]
        return [] if len(peers) >= least else [f"expected {least} connections or more, found {len(peers)}"]

    def _check_beats(self, check: Mapping[str, Any]) -> list[str]:
        """The longest time between two signs of life, from the first to the last."""
        marks = [call.at for call in self.server.calls if call.method in ("Heartbeat", "SendHeartbeat")]
        gaps = [after - before for before, after in pairwise(marks)]
        most = check["beats"]
        if len(marks) < check.get("at_least", 2):
            return [f"expected {check.get('at_least', 2)} beats or more, found {len(marks)}"]
        return [] if max(gaps) <= most else [f"expected a beat every {most} s, found {max(gaps):.2f} s without"]
