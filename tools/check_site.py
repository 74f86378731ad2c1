"""Check the documentation site that `make site` built: its links, and two pages in a browser.

    KERAS_BACKEND=torch python tools/check_site.py FOLDER

The script requires Chromium and its driver. The browser can reach only a server of the folder.
"""

import contextlib
import functools
import json
import shutil
import sys
import tempfile
import threading
import time
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import keras
import numpy as np
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from keras_permix.analysis import permutation_maps
from keras_permix.data import read_image
from keras_permix.tasks import task_of
from keras_permix.zoo import CSPViT

PICTURES = Path(__file__).parents[1] / "examples" / "images"
SETTINGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1400,1400",
)
SECONDS = 120  # for the slowest machine to load the model
CLOSE = 0.02  # of percentages with two digits: two runtimes round float32 differently
SAME = 0.001  # share of values; those of nearly equal pairs may be swapped
DROP = """
const [name] = arguments;
return (async () => {
  const blob = await (await fetch(`_static/demo/${name}`)).blob();
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([blob], name, { type: blob.type }));
  document.getElementById("demo").dispatchEvent(new DragEvent("drop", { dataTransfer }));
})();
"""
CLICK = "document.querySelector(`#examples [alt='${arguments[0]}']`).parentElement.click();"
# Click every patch in every layer, and read the weights that the page shows.
WEIGHTS = """
const [layer, patches] = ["layer", "tokens"].map((id) => document.getElementById(id));
const all = [...patches.children];
return Array.from({ length: Number(layer.max) + 1 }, (_, index) => {
  layer.value = index;
  layer.dispatchEvent(new Event("input"));
  return all.map((patch) => {
    patch.click();
    return all.map((position) => Number(position.dataset.weight));
  });
});
"""
# Return the rows of the explorer's table as displayed.
ROWS = """
const [head, ...rows] = [...document.querySelectorAll("article tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent.trim()));
return rows.map((row) => Object.fromEntries(row.map((cell, index) => [head[index], cell])));
"""


class Links(HTMLParser):
    """Collect the links, the resources and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.leads, self.loads, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes.get("id"), attributes.get("name")}
        if tag == "a" and attributes.get("href"):
            self.leads.append(attributes["href"])
        elif tag != "a" and "canonical" != attributes.get("rel"):
            self.loads += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def main(folder):
    results = {}
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    results["links have targets"] = list(broken_links(folder, pages))
    results["pages load nothing from outside"] = [
        f"{path.relative_to(folder)}: {link}"
        for path, page in pages.items()
        for link in page.loads
        if urlsplit(link).netloc
    ]
    outside = {link for page in pages.values() for link in page.leads if urlsplit(link).netloc}
    print("external links, not followed:", *sorted(outside), sep="\n  ")
    with served(folder) as address, tempfile.TemporaryDirectory() as profile:
        browser = open_browser(profile)
        try:
            results |= check_demo(browser, address) | check_explorer(browser, address)
            results["no request leaves the machine"] = list(strangers(browser, address))
        finally:
            browser.quit()
    for name, wrong in results.items():
        print(f"{'FAILED' if wrong else 'passed'}: {name}", *wrong, sep="\n  ")
    failed = sum(map(bool, results.values()))
    print(f"{len(results) - failed} passed, {failed} failed")
    return int(failed > 0)


def broken_links(folder, pages):
    """Yield the links within the site whose file or anchor does not exist."""
    for path, page in pages.items():
        for link in (*page.leads, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {"", parts.fragment}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                yield f"{path.relative_to(folder)}: {link}"


def check_demo(browser, address):
    """Return the errors in the page's predictions, by image."""
    model = CSPViT.from_preset("cifar10_small")
    task, results = task_of(model), {}
    browser.get(f"{address}/demo.html")
    results["the page shows an example"] = unless("ready", state(browser))
    for path in sorted(PICTURES.glob("*.png")):
        image = read_image(path)[None]
        output = keras.ops.convert_to_numpy(model(image, training=False))[0]
        results[path.name] = unless("ready", ask(browser, choose, path))
        results[path.name] += wrong_labels(browser, lines := task.answer(output, 5))
        results[path.name] += wrong_sources(browser, model, image)
    said = ask(browser, choose, __file__)
    results["a file that is no image is rejected"] = unless("failed", said)
    for way, how in (("dropped", DROP), ("clicked", CLICK)):
        asked = ask(browser, webdriver.Chrome.execute_script, how, path.name)
        results[f"{path.name}, {way}"] = unless("ready", asked)
        results[f"{path.name}, {way}"] += wrong_labels(browser, lines)
    return results


def check_explorer(browser, address):
    """Return the errors in the order of the explorer's table and the titles of its points."""
    browser.get(f"{address}/explorer.html")
    results = {}
    for head, way in (("parameters", 1), ("parameters", -1), ("step, jax", 1)):
        browser.find_element(By.XPATH, f"//th/button[.='{head}']").click()
        rows = browser.execute_script(ROWS)
        numbers = [
            float("inf") if row[head] == "–" else way * float(row[head].strip("×").replace(",", ""))
            for row in rows
        ]
        results[f"the explorer sorts by {head}, {way}"] = unless(sorted(numbers), numbers)
    data, axis = map(Select, browser.find_elements(By.CSS_SELECTOR, "#explorer select"))
    data.select_by_visible_text("cifar10")
    for head in ("parameters", "step, jax"):
        axis.select_by_visible_text(head)
        expected = sorted(
            f"{row['preset']}: {row['metric']} {row['score']}, {head} {row[head]}"
            for row in rows
            if row["data"] == "cifar10" and row[head] != "–"
        )
        titles = browser.find_elements(By.CSS_SELECTOR, "#explorer a title")
        found = sorted(title.get_attribute("textContent") for title in titles)
        results[f"the explorer's points over {head} have titles"] = unless(expected, found)
    return results


@contextlib.contextmanager
def served(folder):
    """Serve the files of a folder on this machine, and yield the address."""
    handler = functools.partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *arguments):
        pass


def open_browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    for setting in (*SETTINGS, f"--user-data-dir={profile}"):
        options.add_argument(setting)
    driver = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options, driver)


def unless(expected, said):
    return [] if said == expected else [said]


def ask(browser, give, *given):
    """Give the page an image, and return the state in which it ends."""
    browser.execute_script("document.getElementById('demo').dataset.state = 'asked'")
    give(browser, *given)
    return state(browser)


def choose(browser, path):
    """Select a file in the page's form."""
    browser.find_element(By.ID, "file").send_keys(str(path))


def state(browser):
    """Wait until the page is ready or has failed, and return its state."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        said = browser.find_element(By.ID, "demo").get_attribute("data-state")
        if said in ("ready", "failed"):
            return said
        time.sleep(0.05)
    return f"{said} after {SECONDS} s: {browser.get_log('browser')}"


def wrong_labels(browser, expected):
    """Return the lines in which the page differs from `permix predict`."""
    shown = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#labels li")]
    if len(shown) != len(expected):
        return [f"{len(shown)} labels"]
    pairs = [[line.split(" %  ") for line in pair] for pair in zip(shown, expected, strict=True)]
    return [
        f"{ours} {our_label}, expected {theirs} {their_label}"
        for (ours, our_label), (theirs, their_label) in pairs
        if our_label.strip() != their_label or abs(float(ours) - float(theirs)) > CLOSE
    ]


def wrong_sources(browser, model, image):
    """Yield the layers in which the page does not show the model's permutations."""
    seen = np.array(browser.execute_script(WEIGHTS))  # (layers, tokens, positions)
    depth, width = (model.get_config()[key] for key in ("num_layers", "hidden_dim"))
    if len(seen) != depth or (seen.sum(axis=1) != width).any() or (seen.sum(2) != width).any():
        yield f"{seen.shape}: every token must receive, and every position supply, {width} values"
        return
    for layer in range(depth):
        block = model.get_layer(f"block_{layer}")
        tokens = keras.Model(model.input, block.mixer_norm(block.input))(image)
        maps = permutation_maps(block.mixer, tokens)  # (batch, channels, tokens, positions)
        apart = abs(seen[layer] - np.asarray(maps)[0].sum(axis=0)).sum() / (2 * seen[layer].sum())
        if apart > SAME:
            yield f"layer {layer}: {100 * apart:.2f} % of the values come from elsewhere"


def strangers(browser, address):
    """Yield the addresses outside the server that the browser requested."""
    for entry in browser.get_log("performance"):
        said = json.loads(entry["message"])["message"]
        if said["method"] == "Network.requestWillBeSent":
            url = said["params"]["request"]["url"]
            if url.startswith(("http", "ws")) and not url.startswith(f"{address}/"):
                yield url


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
