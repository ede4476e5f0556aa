"""Log lines for machines and people, whatever is in them."""

import json
import logging
from pathlib import Path

import pytest
from opentelemetry.trace import NonRecordingSpan, use_span

from rota.telemetry_logs import JsonFormatter
from rota.telemetry_otlp import LOG_BYTES_MAX
from rota.telemetry_traces import parse
from tests.otlp import OtlpReceiver

from .attempts import SAMPLED, SPAN, TRACE, UNSAMPLED
from .conftest import Start, lines


def test_json_lines_carry_the_ids_of_the_current_span(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None)
    log = logging.getLogger("rota.test")
    context = parse(SAMPLED, "")
    assert context is not None
    with use_span(NonRecordingSpan(context)):
        log.info("inside %d", 1)
    log.info("outside", extra={"queue": "mail", "count": 3})
    log.info("handed over", extra={"traceparent": UNSAMPLED})
    log.info("nothing handed over", extra={"traceparent": ""})
    inside, outside, handed, nothing = lines(capsys)
    assert inside["message"] == "inside 1"
    assert (inside["trace_id"], inside["span_id"]) == (TRACE, SPAN)
    assert inside["level"] == "INFO"
    assert inside["logger"] == "rota.test"
    assert inside["time"].endswith("Z")
    assert set(outside) == {"time", "level", "logger", "message", "queue", "count"}
    assert (outside["queue"], outside["count"]) == ("mail", 3)
    assert (handed["trace_id"], handed["span_id"]) == (TRACE, SPAN)
    assert "traceparent" not in handed
    assert "trace_id" not in nothing


def test_a_json_line_is_one_line_of_ascii(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None)
    try:
        raise ValueError("two\nlines, \ud800 and \0")
    except ValueError:
        logging.getLogger("rota.test").exception("oh\n\ud800 \0 ü", extra={"message_": {1, 2}, "path": Path("a")})
    text = capsys.readouterr().err
    assert text.isascii()
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "oh\n\ud800 \0 ü"
    assert "ValueError: two\nlines" in line["exception"]
    assert line["path"] == "a"


def test_what_a_line_says_of_itself_cannot_be_replaced() -> None:
    record = logging.makeLogRecord({"msg": "real", "levelname": "INFO", "level": "forged", "time": "forged"})
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"]) == ("real", "INFO")
    assert line["time"] != "forged"


def test_text_for_people(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None, log_format="text")
    log = logging.getLogger("rota.test")
    log.warning("worker %s", "w\n2026-01-01 ERROR forged\x1b[0m", extra={"queue": "ma\nil", "traceparent": SAMPLED})
    (line,) = capsys.readouterr().err.splitlines()
    assert "\x1b" not in line
    assert line.endswith(
        f"WARNING rota.test: worker w\\n2026-01-01 ERROR forged\\x1b[0m queue=ma\\nil trace_id={TRACE} span_id={SPAN}"
    )


def test_levels(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    # As sqlalchemy does when it is imported.
    logging.getLogger("sqlalchemy").setLevel(logging.WARNING)
    start(endpoint=None, log_level="DEBUG")
    logging.getLogger("rota.test").debug("ours")
    logging.getLogger("rota_sdk.worker").debug("the SDK's")
    logging.getLogger("sqlalchemy.engine").info("a library's chatter")
    logging.getLogger("sqlalchemy.engine").warning("a library's warning")
    assert [line["message"] for line in lines(capsys)] == ["ours", "the SDK's", "a library's warning"]
    start(endpoint=None, log_level="error")
    logging.getLogger("rota.test").warning("ours")
    logging.getLogger("sqlalchemy.engine").warning("a library's warning")
    logging.getLogger("rota.test").error("once, though set up twice")
    assert [line["message"] for line in lines(capsys)] == ["once, though set up twice"]


def test_lines_arrive(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    log = logging.getLogger("rota.test")
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("job %s failed", "j-1", extra={"queue": "mail", "count": 3, "traceparent": SAMPLED})
    telemetry.shutdown(5.0)
    (line,) = receiver.lines
    assert (line.logger, line.severity, line.body) == ("rota.test", "ERROR", "job j-1 failed")
    assert (line.trace_id, line.span_id) == (TRACE, SPAN)
    assert (line.attributes["queue"], line.attributes["count"]) == ("mail", 3)
    assert line.attributes["exception.type"] == "KeyError"
    assert "KeyError: 'gone'" in line.attributes["exception.stacktrace"]
    assert line.resource["service.instance.id"] == "c-1"


def test_no_text_loses_the_lines_beside_it(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    log = logging.getLogger("rota.test")
    log.info("before")
    log.info("lone \ud800, NUL \0", extra={"bad": "\udfff", "huge": 1 << 70, "thing": object(), "share": 0.5})
    log.info("x" * 10_000_000)
    log.info("after")
    telemetry.shutdown(5.0)
    assert [line.body[:7] for line in receiver.lines] == ["before", "lone ?,", "xxxxxxx", "after"]
    assert receiver.lines[1].attributes["bad"] == "?"
    assert receiver.lines[1].attributes["huge"] == str(1 << 70)
    assert receiver.lines[1].attributes["share"] == 0.5
    assert len(receiver.lines[2].body) == LOG_BYTES_MAX


def test_the_export_does_not_feed_itself(
    start: Start, receiver: OtlpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = start()
    for number in range(3):
        logging.getLogger("opentelemetry.exporter").error("failed %d", number)
    logging.getLogger("rota.test").info("mine")
    telemetry.shutdown(5.0)
    assert [line.body for line in receiver.lines] == ["mine"]
    assert [line["message"] for line in lines(capsys)] == ["failed 0", "mine"]  # and not one for each batch
