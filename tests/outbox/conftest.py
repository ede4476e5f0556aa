"""An application's database with the outbox."""

import pytest

from rota.outbox import install

from .world import SCHEMA, App, ScriptedRota


@pytest.fixture
def bare_app(empty_database: str) -> App:
    """With a schema and no outbox."""
    app = App(empty_database)
    app.run(f"create schema {SCHEMA}")
    return app


@pytest.fixture
def app(bare_app: App) -> App:
    install.install(bare_app.place)
    return bare_app


@pytest.fixture
def rota() -> ScriptedRota:
    return ScriptedRota()
