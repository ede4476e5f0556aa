"""The program under test: a worker of some SDK, told what to do by one line of JSON, which tells what it sees.

In, first line: {address, api_key, queues, slots, drain_timeout, types: {type: behaviour}}; then {finish: jobs/1}.
Out, one line for each event, flushed at once: started, stopping, at_risk, ended, left. What each behaviour does is in
README.md. It leaves by SIGTERM, and exits 0 when it left in order.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

STDERR_CHARS = 4_000


class Program:
    def __init__(self, command: Sequence[str], folder: Path, config: Mapping[str, Any], notify: Callable[[], None]):
        self.events: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self._notify = notify
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._readers = [
            threading.Thread(target=self._read_events, name="program-events", daemon=True),
            threading.Thread(target=self._read_errors, name="program-errors", daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self.tell(config)

    def tell(self, message: Mapping[str, Any]) -> None:
        """One line to its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            return

    def signal(self, name: str) -> None:
        if self._process.poll() is None:
            self._process.send_signal(getattr(signal, f"SIG{name}"))

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float) -> int | None:
        """Asks it to leave, waits, and kills it when it does not; its exit code, None when it had to be killed."""
        self.signal("CONT")
        self.signal("TERM")
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for reader in self._readers:
                reader.join(2.0)
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        continue

    @property
    def errors(self) -> str:
        """The end of what it wrote to standard error."""
        return "".join(self._errors)[-STDERR_CHARS:]

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                self._errors.append(f"(not JSON on standard output) {line}")
                continue
            event["at"] = time.monotonic()
            self.events.append(event)
            self._notify()
        self._notify()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)
