"""Scenarios of good answers: pages, products, files, and pages that only a browser completes."""

from __future__ import annotations

import gzip
import json
import struct
import zlib

from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.text import article, page, product, prose
from retryscrape.hostile.wire import HTML, Reply, answer


def png(width: int = 2, height: int = 2) -> bytes:
    """A valid picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    rows = zlib.compress((b"\0" + b"\x7f\x9f\xbf" * width) * height)
    shape = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", shape) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def pdf(text: str) -> bytes:
    """A small document of one page (readers rebuild its missing table)."""
    flow = f"BT /F1 18 Tf 30 100 Td ({text}) Tj ET".encode()
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
        b"4 0 obj<</Length " + str(len(flow)).encode() + b">>stream\n" + flow + b"\nendstream "
        b"endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
    )


def ok(scene: Scene, kilobytes: float = 3) -> Reply:
    """An ordinary page, distinct for each URL; ``?kb=`` sets its size."""
    return answer(article(scene.seed, int(scene.number("kb", kilobytes) * 1000)))


def _json(scene: Scene) -> Reply:
    rows = [{"id": n, "name": f"{scene.rest} {n}"} for n in range(5)]
    return answer(json.dumps({"url": scene.seed, "rows": rows}), kind="application/json")


def _same(scene: Scene) -> Reply:
    return answer(article("the page that all of these URLs show"))


def _soft404(scene: Scene) -> Reply:
    return answer(page("Page not found", f"<h1>Page not found</h1>{prose(scene.seed)}"))


def _latin1(scene: Scene) -> Reply:
    text = f"<h1>Größe und Maß</h1><p>Überall weiße Äpfel.</p>{prose(scene.seed)}"
    body = page("Größe", text).replace('<meta charset="utf-8">', "").encode("latin-1")
    return answer(body, kind="text/html; charset=iso-8859-1")


def _sitemap(scene: Scene) -> Reply:
    body = '<?xml version="1.0"?><urlset><url><loc>http://shop.test/ok/1</loc></url></urlset>'
    return answer(body, kind="application/xml")


def _download(scene: Scene) -> Reply:
    attach = {"Content-Disposition": 'attachment; filename="prices.csv"'}
    return answer(f"name,price\n{scene.rest},3.50\n", kind="text/csv", headers=attach)


def _script(scene: Scene) -> Reply:
    """An empty shell: the text exists only after its script ran (150 ms, as in probes)."""
    text = json.dumps(f'<h1 class="title">Made by script</h1>{prose(scene.seed)}')
    code = f"setTimeout(() => {{document.getElementById('app').innerHTML = {text}}}, 150)"
    return answer(page("Shop", f'<div id="app"></div><script>{code}</script>'))


def _lazy(scene: Scene) -> Reply:
    """Loads a further part each time the reader scrolls to the end, three times."""
    code = (
        "let n = 0; const end = document.getElementById('end');"
        "new IntersectionObserver(async seen => {"
        "  if (!seen[0].isIntersecting || n >= 3) return; n += 1;"
        f"  const part = await fetch('/part/' + n + '?of={scene.rest}');"
        "  end.insertAdjacentHTML('beforebegin', await part.text());"
        "  if (n === 3) end.textContent = 'all parts are here';"
        "}, {rootMargin: '50px'}).observe(end)"
    )
    tall = '<div style="height: 3000px"></div>'
    body = f'<h1>Lazy</h1><p>{scene.rest}</p>{tall}<div id="end">more</div><script>{code}</script>'
    return answer(page("Lazy", body))


def _part(scene: Scene) -> Reply:
    tall = f'<div style="height: 2000px">{prose(scene.seed, 800)}</div>'
    return answer(f'<section class="part">part {scene.rest}</section>{tall}')


def _assets(scene: Scene) -> Reply:
    """A page with all that a browser loads; the log says what it did load."""
    mark = scene.rest
    head = (
        f'<link rel="stylesheet" href="/asset/style.css?of={mark}">'
        f'<script src="/asset/code.js?of={mark}"></script>'
    )
    pictures = "".join(f'<img src="/asset/{n}.png?of={mark}" alt="">' for n in range(3))
    video = f'<video src="/asset/film.mp4?of={mark}" autoplay muted></video>'
    return answer(article(scene.seed, 3000, head).replace("</main>", f"</main>{pictures}{video}"))


def _asset(scene: Scene) -> Reply:
    of = scene.text("of")
    style = f"@font-face{{font-family:x;src:url(/asset/x.woff2?of={of})}} body{{font-family:x}}"
    bodies: dict[str, tuple[str, bytes]] = {
        "css": ("text/css", style.encode()),
        "js": ("text/javascript", b"window.loaded = true"),
        "png": ("image/png", png()),
        "woff2": ("font/woff2", b"wOF2" + bytes(2000)),
        "mp4": ("video/mp4", bytes(20_000)),
    }
    kind, body = bodies.get(scene.rest.rpartition(".")[2], ("text/plain", b"?"))
    return answer(body, kind=kind)


def _echo(scene: Scene) -> Reply:
    request = scene.request
    seen = {
        "client": request.client,
        "method": request.method,
        "host": request.header("host"),
        "path": request.target,
        "headers": request.pairs,
        "secure": request.secure,
    }
    return answer(json.dumps(seen, indent=1), kind="application/json")


PAGES = (
    Scenario("ok", "an ordinary page, distinct for each URL; ?kb= sets its size", ok),
    Scenario("small", "an ordinary page of 1 KB", lambda scene: ok(scene, 1)),
    Scenario("medium", "an ordinary page of 13 KB", lambda scene: ok(scene, 13)),
    Scenario("large", "an ordinary page of 150 KB", lambda scene: ok(scene, 150)),
    Scenario("product", "a product with a name and a price", lambda s: answer(product(s.seed))),
    Scenario(
        "noprice",
        "a product whose price is missing",
        lambda scene: answer(product(scene.seed, priced=False)),
    ),
    Scenario("same", "the same body under every URL", _same),
    Scenario("soft404", "'page not found', sent with status 200", _soft404),
    Scenario("latin1", "a page in ISO 8859-1", _latin1),
    Scenario("json", "a JSON document", _json),
    Scenario(
        "badjson",
        "JSON that breaks off, sent as whole",
        lambda s: answer('{"rows": [{"id": 1}, {"id"', kind="application/json"),
    ),
    Scenario("list", "an empty JSON list", lambda _: answer("[]", kind="application/json")),
    Scenario("xml", "a small sitemap", _sitemap),
    Scenario("plain", "a plain text", lambda s: answer(f"text {s.seed}\n", kind="text/plain")),
    Scenario("png", "a picture", lambda _: answer(png(), kind="image/png")),
    Scenario("mislabelled", "a picture sent as text/html", lambda _: answer(png(), kind=HTML)),
    Scenario(
        "untyped", "a page without a content type", lambda s: answer(article(s.seed), kind=None)
    ),
    Scenario("pdf", "a PDF document", lambda s: answer(pdf("Hello"), kind="application/pdf")),
    Scenario(
        "gzipfile",
        "a gzip file (a file, not an encoding)",
        lambda s: answer(gzip.compress(s.seed.encode()), kind="application/gzip"),
    ),
    Scenario("download", "an attachment", _download),
    Scenario("script", "an empty shell that its script fills after 150 ms", _script),
    Scenario("lazy", "a page that loads its parts while one scrolls", _lazy),
    Scenario("part", "a part of /lazy pages", _part),
    Scenario("assets", "a page with pictures, font, video, style and script", _assets),
    Scenario("asset", "what /assets pages load", _asset, "/asset/style.css"),
    Scenario("echo", "what arrived, as JSON", _echo),
)
