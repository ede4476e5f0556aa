"""The JSON Schema of a manifest, for editors and checks: made from the same keys that the reader goes by.

What it cannot say, the reader and the server still refuse: a rule that never fires, a zone that does not exist, two
schedules with one id in the list form.
"""

import json
from typing import Any, Final

from rota.manifest import keys

ID: Final = "https://github.com/rota-scheduler/rota/schedules.schema.json"


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of one document of a file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Schedules of Rota",
        "description": "What `rota apply` reads. YAML, one or several documents in a file.",
        **keys.DOCUMENT.schema(),
        "$defs": {"schedule": keys.SCHEDULE.schema(), "calendar": keys.CALENDAR.schema()},
    }


def text() -> str:
    """The schema as the file schema.json has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
