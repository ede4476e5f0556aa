"""A coordinator as tests start it, whose connections live for two seconds: then it says GOAWAY."""

from rota.api import server

AGES = {"grpc.max_connection_age_ms": 2_000, "grpc.max_connection_age_grace_ms": 1_000}

server.OPTIONS = tuple((key, AGES.get(key, value)) for key, value in server.OPTIONS)

from tests import serve_main  # noqa: E402, F401
