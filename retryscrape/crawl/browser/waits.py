"""When a rendered page is done: the scripts that look from inside it, and how long to bear
with a page that is not yet the one that was asked for. Pure; ``render`` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from retryscrape.crawl.browser.options import Waits
from retryscrape.policy.outcomes import Kind

#: A meta refresh later than this is a page that updates itself, not one on its way.
REFRESH = 10.0
#: A short page of an error status with scripts may be a challenge that nobody knows yet.
UNKNOWN_CHALLENGE = 2.5

#: Resolves with a ``Look`` when the document rests. MutationObserver and not polling of the
#: text: ``innerText`` forces a layout. Attributes are left out, animations change them.
LOOK = """(o) => new Promise((resolve) => {
  const start = performance.now();
  let last = start, checked = -1, cached = 0, parsed = null;
  const observer = new MutationObserver(() => { last = performance.now(); });
  observer.observe(document, {childList: true, subtree: true, characterData: true});
  const text = () => {
    if (checked !== last) {
      checked = last;
      cached = document.body ? document.body.innerText.trim().length : 0;
    }
    return cached;
  };
  const thin = () => text() < o.enough || (o.require && !document.querySelector(o.require));
  const done = () => {
    observer.disconnect();
    const meta = document.querySelector('meta[http-equiv="refresh" i]');
    const delay = meta ? parseFloat(meta.content) : NaN;
    const type = document.doctype
      ? new XMLSerializer().serializeToString(document.doctype) : '';
    resolve({
      html: type + (document.documentElement ? document.documentElement.outerHTML : ''),
      url: location.href, text: text(), scripts: document.scripts.length,
      refresh: Number.isNaN(delay) ? null : delay,
    });
  };
  const look = () => {
    const now = performance.now(), still = now - last;
    if (document.readyState !== 'loading') {
      if (parsed === null) parsed = now;
      const ready = document.readyState === 'complete' || now - parsed > o.hang;
      if (ready && still >= o.quiet) {
        if (!thin()) return done();
        if (!document.scripts.length || !o.good || still >= o.sparse) return done();
      }
      if (now - parsed > (o.busy < o.limit && still < o.quiet && !thin() ? o.busy : o.limit))
        return done();
    }
    setTimeout(look, 25);
  };
  look();
})"""

#: The same at once, for a page that breaks ``LOOK`` or never rests.
GLANCE = """() => ({
  html: document.documentElement ? document.documentElement.outerHTML : '',
  url: location.href, text: document.body ? document.body.innerText.trim().length : 0,
  scripts: document.scripts.length, refresh: null, loading: document.readyState === 'loading',
})"""

#: Scrolls down screen by screen until the page grows no more or the time (ms) is over.
SCROLL = """(limit) => new Promise((resolve) => {
  const start = performance.now();
  let height = 0, same = 0;
  const step = () => {
    const root = document.scrollingElement || document.documentElement;
    window.scrollBy(0, window.innerHeight);
    const end = root.scrollTop + window.innerHeight >= root.scrollHeight - 2;
    same = end && root.scrollHeight === height ? same + 1 : 0;
    height = root.scrollHeight;
    if (same >= 4 || performance.now() - start > limit) resolve(height);
    else setTimeout(step, end ? 150 : 50);
  };
  step();
})"""


class Look(Struct, frozen=True, kw_only=True):
    """What a page showed when it rested. ``text`` in visible characters, ``refresh`` the
    seconds of its meta refresh or None."""

    html: str
    url: str
    text: int = 0
    scripts: int = 0
    refresh: float | None = None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Look:
        """Out of what the script gave; a page may have tampered with it, so nothing is trusted."""
        refresh = value.get("refresh")
        return cls(
            html=str(value.get("html") or ""),
            url=str(value.get("url") or ""),
            text=int(value.get("text") or 0),
            scripts=int(value.get("scripts") or 0),
            refresh=float(refresh) if isinstance(refresh, int | float) else None,
        )


def arguments(waits: Waits, *, enough: int, require: str | None, good: bool) -> dict[str, Any]:
    """``LOOK``'s argument. ``good`` says that the status was 2xx: of an error page no script
    is awaited."""
    return {
        "enough": enough,
        "require": require,
        "good": good,
        "quiet": waits.quiet * 1000,
        "sparse": waits.sparse * 1000,
        "busy": waits.busy * 1000,
        "limit": waits.limit * 1000,
        "hang": waits.hang * 1000,
    }


def patience(waits: Waits, *, kind: Kind | None, status: int, look: Look, enough: int) -> float:
    """Seconds to wait for this page to make way for another one; 0: it is the page."""
    if kind is Kind.CHALLENGE:
        return waits.challenge
    if kind is not None or look.text >= enough:
        return 0.0
    if look.refresh is not None and 0 <= look.refresh <= REFRESH:
        return look.refresh + 2.0
    if status >= 400 and look.scripts and status not in (404, 410):
        return UNKNOWN_CHALLENGE
    return 0.0
