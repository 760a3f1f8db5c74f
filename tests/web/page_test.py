"""The page of `paceline serve` in a real browser: ./dev web runs this.

page_test.py PROGRAM [--pictures FOLDER]    with the second, only makes the pictures of the docs
"""

import argparse
import io
import json
import os
import sys

from browser import Browser, Keys, Server
from PIL import Image

LONG = "def fibonacci(n):"

# An answer that tries what a page could fall for, as a stream of chunks.
HOSTILE = [
    "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>",
    "\n\n[here](javascript:window.broken=3) [there](data:text/html,<script>1</script>) [fine](https://example.org/)",
    "\n\n\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eright to left \u0000 nothing",
    "\n\n```html\n<iframe srcdoc='<script>parent.broken=4</script>'></iframe>\n```\n\n",
    "\n\n"
    + "> " * 500
    + "deep\n\n"
    + "- " * 500
    + "deep\n\n"
    + "**" * 5000
    + "[" * 5000
    + "`" * 5000
    + "\n\n",
    "x" * 300_000,
    "\n\n" + "| a | b |\n|---|---|\n" + "| <b>1</b> | 2 |\n" * 50,
]


def test_streams(page, server):
    page.open_fresh(server.url)
    page.send(LONG)
    page.until(page.writing)
    page.until(lambda: page.answer())
    part = page.answer()
    page.answered()
    assert len(page.answer()) >= len(part)
    assert "tokens" in page.text(".answer footer") and "accepted" in page.text(".answer footer")
    assert page.all(".t.draft, .t.lookahead") and page.all(".t.target")
    assert page.text("#side li .title") == LONG


def test_alternatives(page, server):
    point = "[...document.querySelectorAll('.answer .t.target')].at(-1).dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    page.until(lambda: page.script(point) or page.one(".card").is_displayed())
    assert 5 <= len(page.all(".card li")) <= 6 and "%" in page.text(".card li")
    assert len(page.all(".card li.chosen")) == 1


def test_reload(page, server):
    before, shaded = page.answer(), len(page.all(".t.draft"))
    page.refresh()
    page.until(lambda: page.text("#link") == "Connected")
    assert page.answer() == before and len(page.all(".t.draft")) == shaded


def test_regenerate_and_edit(page, server):
    page.button("Regenerate").click()
    page.answered()
    assert len(page.all(".answer")) == 1
    page.button("Edit", ".user").click()
    page.keys(Keys.CONTROL, "a")
    page.keys("import numpy", Keys.ENTER)
    page.until(lambda: page.text(".user .text") == "import numpy")
    page.answered()
    assert len(page.all(".message")) == 2


def test_stop(page, server):
    page.open_fresh(server.url)
    page.send(LONG)
    page.until(lambda: page.answer())
    page.keys(Keys.ESCAPE)
    page.until(lambda: "Stopped" in page.text(".answer .problem"))
    assert not page.writing()
    page.until(
        lambda: server.metric("vllm:num_requests_running") == 0
    )  # The server has heard of it.


def test_settings(page, server):
    page.open_fresh(server.url)
    page.one("#open-settings").click()
    for label, value in (("Temperature", "0.9"), ("Seed", "11"), ("Most tokens", "24")):
        page.set(label, value)
    page.button("Done", "dialog").click()
    answers = []
    for again in (False, True):
        page.button("Regenerate").click() if again else page.send(LONG)
        page.answered()
        assert "24 tokens" in page.text(".answer footer") and "seed 11" in page.text(
            ".answer footer"
        )
        answers.append(page.answer())
    assert (
        answers[0] == answers[1]
        if "rule coupled" in page.text("footer")
        else answers[0] and answers[1]
    )


def test_conversations(page, server):
    page.button("New conversation", "#side").click()
    page.send("second")
    page.answered()
    assert [one.text for one in page.all("#side .title")] == ["second", LONG]
    page.all("#side .title")[1].click()
    assert page.text(".user .text") == LONG
    page.all("#side li .icon")[1].click()
    assert [one.text for one in page.all("#side .title")] == ["second"]


def test_server_dies_and_comes_back(page, server):
    page.open_fresh(server.url)
    page.send(LONG)
    page.until(lambda: page.answer())
    server.die()
    page.until(lambda: page.text("#link") == "Not connected")
    assert page.answer() and "ended before" in page.text(".answer .problem")
    server.start()
    page.until(lambda: page.text("#link") == "Connected")
    page.button("Regenerate").click()
    page.answered()
    assert "ended before" not in page.text(".answer .problem")


def test_hostile_answer(page, server):
    script = page.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": """
        const real = fetch;
        window.fetch = async (path, options) => {
          if (path !== '/v1/chat/completions') return real(path, options);
          const parts = %s;
          const event = (choice) => 'data: ' + JSON.stringify({choices: [choice]}) + '\\n\\n';
          const body = parts.map((content) => event({delta: {content}, finish_reason: null})).join('') +
            event({delta: {reasoning_content: '<b>thought</b>',
                           tool_calls: [{index: 0, id: 'a', function: {name: '<i>f</i>', arguments: '{"a": "<u>"'}}]},
                   finish_reason: 'stop'}) + 'data: [DONE]\\n\\n';
          return new Response(body, {status: 200});
        };"""
            % json.dumps(HOSTILE)
        },
    )
    page.open_fresh(server.url)
    page.send("anything")
    page.answered()
    assert page.script("return window.broken") is None
    shown = page.text(".answer")
    assert (
        "<script>" in shown
        and "<iframe" in shown
        and "<b>thought</b>" in shown
        and "Call of <i>f</i>" in shown
    )
    for forbidden in ("script", "img", "iframe", "b", "i", "u"):
        assert not page.all(f".answer {forbidden}"), forbidden
    assert [link.get_attribute("href") for link in page.all(".answer a")] == [
        "https://example.org/"
    ]
    assert page.script("return document.querySelector('.messages').scrollWidth <= innerWidth")
    page.refresh()  # What was kept is as harmless.
    page.until(lambda: page.all(".answer"))
    assert page.script("return window.broken") is None
    page.execute_cdp_cmd(
        "Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]}
    )


def test_widths(page, server):
    page.open_fresh(server.url)
    page.send(LONG)
    page.answered()
    for width, height in ((320, 640), (760, 900), (1920, 1080)):
        page.size(width, height)
        for view in ("chat", "lanes", "race"):
            page.script("location.hash = arguments[0]", view)
            page.until(lambda: page.all(f".{view}"))
            assert page.script("return document.documentElement.scrollWidth") <= width, (
                width,
                view,
            )
            outside = page.script(
                """return [...document.querySelectorAll('header *, #view button, #view textarea, #view select')]
                .filter((one) => one.offsetParent && one.getBoundingClientRect().right > innerWidth + 1)
                .map((one) => one.outerHTML.slice(0, 80))"""
            )
            assert not outside, (width, view, outside)
    page.size(320, 640)
    page.script("location.hash = 'chat'")
    page.until(lambda: page.all(".chat"))
    page.one("#menu").click()
    assert page.one("#side .title").is_displayed()
    page.size(1280, 800)


def test_keyboard_alone(page, server):
    page.open_fresh(server.url)
    page.keys("first line", Keys.SHIFT, Keys.ENTER)  # The message has the focus from the start.
    page.keys(Keys.NULL, "second line", Keys.ENTER)
    page.answered()
    assert page.text(".user .text") == "first line\nsecond line"
    names = []
    page.script("document.activeElement.blur()")
    for _ in range(25):
        page.keys(Keys.TAB)
        names.append(
            page.script(
                "const one = document.activeElement; return one.id || one.textContent.trim()"
            )
        )
    for wanted in (
        "Skip to the conversation",
        "Lanes",
        "open-settings",
        "New conversation",
        "Copy",
        "Regenerate",
        "input",
        "send",
    ):
        assert wanted in names, (wanted, names)
    assert (
        names.index("open-settings")
        < names.index("New conversation")
        < names.index("Regenerate")
        < names.index("input")
    )
    for field in page.all("input, select, textarea, button"):
        if field.is_displayed():
            assert field.accessible_name, field.get_attribute("outerHTML")


def test_contrast(page, server):
    """Text on its ground has the contrast that WCAG 2.2 asks of it, 4.5, in both schemes."""
    for scheme in ("light", "dark"):
        page.colours(scheme)
        for text, grounds in (
            ("--ink", ("--ground", "--raised", "--sunken", "--draft", "--ahead")),
            ("--soft", ("--ground", "--raised", "--sunken")),
            ("--wrong", ("--ground",)),
            ("--on-accent", ("--accent",)),
        ):
            for ground in grounds:
                ratio = page.script(
                    """
                    const probe = document.body.appendChild(document.createElement('i'));
                    const light = (name) => {
                      probe.style.color = `var(${name})`;
                      return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3)
                        .map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
                        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
                    };
                    const [a, b] = [...arguments].map(light).sort((x, y) => y - x);
                    probe.remove();
                    return (a + 0.05) / (b + 0.05);""",
                    text,
                    ground,
                )
                assert ratio >= 4.5, (scheme, text, ground, ratio)
    page.colours("light")


def test_lanes(page, server):
    page.open_fresh(server.url)
    page.script("location.hash = 'lanes'")
    page.until(lambda: page.all(".lanes canvas"))
    page.button("Give it work").click()
    page.until(lambda: "–" not in page.text(".figures dd"))
    coloured = """const canvas = document.querySelector('.lanes canvas');
        const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let i = 0; i < dots.length; i += 4) if (dots[i + 3] > 250) seen.add(dots[i] << 16 | dots[i + 1] << 8 | dots[i + 2]);
        return seen.size"""
    page.until(lambda: page.script(coloured) > 3)
    server.die()
    page.until(lambda: page.text(".lanes .problem"))
    server.start()
    page.until(lambda: page.all(".lanes canvas") and not page.text(".lanes .problem"))
    page.script("location.hash = 'chat'")  # Who does not look costs nothing: the stream is closed.
    page.until(lambda: server.metric("paceline_http_requests_running") == 1)


def test_race(page, server):
    page.open_fresh(server.url)
    page.script("location.hash = 'race'")
    page.until(lambda: page.all(".race"))
    page.button("Start", ".race").click()
    page.until(lambda: page.button("Replay side by side").is_enabled())
    texts = lambda: page.script(
        "return [...document.querySelectorAll('.runner pre')].map((one) => one.textContent)"
    )
    page.until(
        lambda: len(texts()) == 4 and len(texts()[0]) > 100 and len(set(texts())) == 1
    )  # At its end.


def test_full_context(page, server):
    """Runs with a server of its own, whose model has a small context."""
    page.open_fresh(server.url)
    while not page.text(".answer:last-child .problem"):
        page.send(LONG)
        page.answered()
    assert "The context of 128 tokens is full" in page.text(".answer:last-child .problem")
    page.send(LONG)
    page.answered()
    assert "maximum context length" in page.text(".answer:last-child .problem")
    page.one("#open-settings").click()
    page.set("A full context", "on")
    page.set("Most tokens", "16")
    page.button("Done", "dialog").click()
    page.button("Regenerate").click()
    page.answered()
    assert page.text(".answer:last-child .problem") == ""
    assert page.text(".messages > .notice") == "The context was full: the model reads from here on."
    before = page.script("return document.querySelector('.messages > .notice').previousSibling !== null")
    page.refresh()
    page.until(lambda: page.text("#link") == "Connected")
    assert before and page.all(".messages > .notice")
    page.button("Edit", ".user").click()  # Its first message is read again.
    page.keys(Keys.CONTROL, "a")
    page.keys("import numpy", Keys.ENTER)
    page.until(lambda: page.text(".user .text") == "import numpy")
    page.answered()
    assert not page.all(".messages > .notice")


def test_key(page, server):
    """Runs with a server of its own, which wants a key."""
    page.get(server.url)
    page.script("localStorage.clear(); sessionStorage.clear();")
    page.refresh()
    page.until(lambda: page.all("dialog[open]"))
    page.keys("wrong", Keys.ENTER)
    page.until(lambda: "does not know" in page.text("dialog[open]"))
    page.keys("secret", Keys.ENTER)
    page.until(lambda: page.text("#link") == "Connected")
    page.send(LONG)
    page.answered()
    assert page.answer()
    assert "secret" not in page.script("return JSON.stringify(localStorage)")


def save(page, path):
    """Writes what is shown with few colours, which is enough and small."""
    Image.open(io.BytesIO(page.get_screenshot_as_png())).convert("RGB").quantize(
        96, dither=Image.Dither.NONE
    ).save(path, optimize=True)


def make_pictures(page, program, folder):
    server = Server(program)
    page.size(1100, 720)
    page.open_fresh(server.url)
    page.send(LONG)
    page.answered()
    page.script("document.querySelector('.scroller').scrollTop = 0")
    page.script("""const token = [...document.querySelectorAll('.answer .t.target')][6];
                   token.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))""")
    save(page, os.path.join(folder, "page-chat.png"))
    server.stop()
    server = Server(
        program, "--device", "sim:chinchilla-70b", "--draft-device", "sim:chinchilla-4b"
    )
    page.size(1100, 520)
    page.open_fresh(server.url + "#lanes")
    page.script("document.querySelector('.bar select').value = '0.5'")
    page.button("Give it work").click()
    page.until(lambda: "–" not in page.text(".figures dd"))
    page.until(lambda: server.metric("vllm:generation_tokens_total") > 120)
    page.button("Pause").click()
    save(page, os.path.join(folder, "page-lanes.png"))
    server.stop()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--pictures")
    given = arguments.parse_args()
    page = Browser()
    if given.pictures:
        make_pictures(page, given.program, given.pictures)
        return page.quit()
    open_server = Server(given.program)
    own = {
        "test_key": Server(given.program, environment={**os.environ, "PACELINE_API_KEY": "secret"}),
        "test_full_context": Server(given.program, "-c", "128"),
    }
    failed = 0
    for name, test in [
        (name, test) for name, test in globals().items() if name.startswith("test_")
    ]:
        try:
            test(page, own.get(name, open_server))
            complaints = page.complaints()
            assert not complaints, complaints
            print(f"passed  {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__} {error}", flush=True)
            page.save_screenshot(f"build/web/{name}.png")
    page.quit()
    for server in (open_server, *own.values()):
        server.stop()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
