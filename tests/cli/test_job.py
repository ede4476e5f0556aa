"""`rota job`: what is sent, what is shown, and how it exits."""

import io
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest_names import JOB_ID, T0, in_, job  # type: ignore[import-not-found]
from rota.cli import job as job_command
from rota.cli.errors import Exit
from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota_sdk import CancelMode, JobState
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
