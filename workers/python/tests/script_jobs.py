"""The public and admin services by script: every call is written down and gets the next prepared answer."""

import threading
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from rota_conformance.script_server import Refusal
from rota_sdk.gen.rota.admin.v1 import admin_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2_grpc, schedules_pb2_grpc


class ScriptJobs:
    """Answers any unary call of the services; the last answer of a method is given again and again."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, dict[str, Any], float | None]] = []
        self._answers: dict[str, deque[Any]] = defaultdict(deque)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(8, "script-jobs")
        self._server = grpc.server(self._pool)
        for add, base in (
            (jobs_pb2_grpc.add_JobServiceServicer_to_server, jobs_pb2_grpc.JobServiceServicer),
            (admin_pb2_grpc.add_AdminServiceServicer_to_server, admin_pb2_grpc.AdminServiceServicer),
            (schedules_pb2_grpc.add_ScheduleServiceServicer_to_server, schedules_pb2_grpc.ScheduleServiceServicer),
        ):
            names = [name for name in vars(base) if not name.startswith("_")]
            add(type("Scripted", (base,), {name: self._method(name) for name in names})(), self._server)  # type: ignore[arg-type]
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def answer(self, method: str, *answers: Any) -> None:
        with self._lock:
            self._answers[method].extend(answers)

    def of(self, method: str) -> list[Any]:
        return [call[1] for call in self.calls if call[0] == method]

    def close(self) -> None:
        self._server.stop(0).wait(5)
        self._pool.shutdown(wait=True)

    def _method(self, name: str) -> Any:
        def call(_: Any, request: Any, context: grpc.ServicerContext) -> Any:
            metadata = dict(context.invocation_metadata() or ())
            with self._lock:
                self.calls.append((name, request, metadata, context.time_remaining()))
                answers = self._answers[name]
                answer = (answers.popleft() if len(answers) > 1 else answers[0]) if answers else None
            if answer is None:
                answer = Refusal(grpc.StatusCode.UNIMPLEMENTED, "NOT_IMPLEMENTED", name)
            if callable(answer):
                answer = answer(request, context)
            if isinstance(answer, Refusal):
                answer.abort(context)
            return answer

        return call
