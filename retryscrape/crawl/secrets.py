"""Keeps secrets out of every log line, at any level: one filter on the root's handlers."""

from __future__ import annotations

import logging
import traceback

from retryscrape.policy.redact import mask_text

#: A record with this attribute was masked where it was made: the line of every finished
#: URL is, and must not be looked through for every secret of a thousand proxies.
MASKED = "retryscrape_masked"


class SecretFilter(logging.Filter):
    """Masks known secrets, and user and password of any URL, in messages and tracebacks.

    ``secrets`` is shared with the run, which adds to it when proxies are read.
    """

    def __init__(self, secrets: set[str]) -> None:
        super().__init__()
        self.secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, MASKED):
            return True
        try:
            text = record.getMessage()
        except Exception:  # a bad format string is for logging itself to report
            return True
        masked = mask_text(text, self.secrets)
        if masked != text:
            record.msg, record.args = masked, ()
        if record.exc_info and not record.exc_text:
            whole = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            masked = mask_text(whole, self.secrets)
            if masked != whole:
                record.exc_text = masked
        return True


def install(secrets: set[str]) -> None:
    """Put the filter on the root logger's handlers that have none yet."""
    for handler in logging.root.handlers:
        if not any(isinstance(known, SecretFilter) for known in handler.filters):
            handler.addFilter(SecretFilter(secrets))
