#!/usr/bin/env bash
# The page of a sweep in a browser: its figures show the numbers of its data, names stay text, nothing is loaded, it
# fits a phone, and --svg draws the same in node and in Chromium.
#
# usage: page.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/../cli/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip "Chromium is not installed"

# browse URL OPTIONS...: prints the document as the page's script leaves it
browse() {
    local url=$1
    shift
    timeout 120 "$chromium" --headless --disable-gpu $( ((EUID == 0)) && echo --no-sandbox) --dump-dom \
        --disable-background-networking --disable-component-update --disable-sync --no-first-run \
        --user-data-dir="$work/profile" "$@" "$url" 2>browser.log
}

# shows_its_data FILE ELEMENTS...: every marker of the document FILE has the numbers of its row, every row of every
# figure has a marker unless its measure of size is missing, and only known elements occur
shows_its_data() {
    python3 - "$@" <<'END' || fail "$1 does not show its data"
import html.parser, json, math, sys

VOID = {"meta", "input"}
KNOWN = set("html head meta title style body main h1 p code noscript div nav a section h2 h3 h4 span pre button label "
            "fieldset legend input figure ul li svg g path rect line circle text figcaption b i dl dt dd table thead "
            "tbody tr th td small details summary script".split())

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.figure, self.title, self.data, self.inside, self.marks, self.values = None, "", "", None, {}, {}

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag not in KNOWN or any(name.startswith("on") or name == "src" for name in a):
            sys.exit(f"<{tag}> {a}")
        self.inside = a.get("id", tag)
        if tag == "figure":
            self.figure = int(a["id"].split("-")[1]) - 1
        elif "data-row" in a and tag == "g":
            self.marks.setdefault(self.figure, []).append(a)
        elif "data-row" in a and tag == "td":
            self.values[int(a["data-row"])] = ""
            self.inside = int(a["data-row"])

    def handle_endtag(self, tag):
        self.figure = None if tag == "figure" else self.figure
        self.inside = None if tag != "b" else self.inside

    def handle_data(self, text):
        if self.inside == "data":
            self.data += text
        elif self.inside == "title":
            self.title += text
        elif self.inside in self.values or self.inside == "b":
            row = self.inside if self.inside != "b" else list(self.values)[-1] if self.values else None
            if row is not None and not self.values[row]:
                self.values[row] = text

def factor(row, key):
    return 1 if key == "samples" or key == "value" and row["measure"] == "perplexity" else 100

with open(sys.argv[1], encoding="utf-8") as file:
    page = Page()
    page.feed(file.read())
data = json.loads(page.data)
if page.title != "grail: results of a sweep":
    sys.exit(f"title: {page.title}")
for index, figure in enumerate(data["figures"]):
    table = data["tables"][figure["table"]]
    rows = [dict(zip(table["columns"], row)) for row in table["rows"]]
    marks = page.marks.get(index, [])
    x = {"samples": "samples", "scatter": "plain"}.get(figure["kind"], "removed")
    y = "gain" if figure["kind"] in ("gain", "samples") else "value"
    if figure["kind"] == "sites":
        expected = {(str(row), "data-after"): rows[row]["held_after"] for row in figure["rows"]}
    elif figure["kind"] == "cost":
        expected = {(str(row), "data-x"): None for row in figure["rows"]}
    else:
        expected = {(str(row), axis): rows[row][key] * factor(rows[row], key) for row in figure["rows"]
                    for axis, key in (("data-x", x), ("data-y", y)) if rows[row][x] is not None}
    found = {(mark["data-row"], axis): mark[axis] for mark in marks for axis in mark if axis.startswith("data-")}
    for key, value in expected.items():
        if key not in found or value is not None and not math.isclose(float(found[key]), value, rel_tol=1e-12):
            sys.exit(f"figure {index + 1} ({figure['kind']}): {key} is {found.get(key)}, expected {value}")
    if {mark["data-row"] for mark in marks} != {row for row, _ in expected}:
        sys.exit(f"figure {index + 1} ({figure['kind']}): markers of other rows")
groups = [dict(zip(data["tables"]["groups"]["columns"], row)) for row in data["tables"]["groups"]["rows"]]
shown = {i for i, row in enumerate(groups) if row["shown"] and row["value"] is not None}
if set(page.values) != shown:
    sys.exit(f"the tables show {len(page.values)} of {len(shown)} settings")
for i in shown:
    if groups[i]["measure"] == "top-1" and abs(float(page.values[i]) - 100 * groups[i]["value"]) > 0.0501:
        sys.exit(f"row {i}: {page.values[i]} for {groups[i]['value']}")
END
}

# probe FILE SCRIPT: adds a script that puts what it returns into the title; prints the title
probe() {
    python3 - "$1" "$2" <<'END' >probed.html
import re, sys
with open(sys.argv[1], encoding="utf-8") as file:
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read())
print(text.replace("</body>", f"<script>document.title = String((() => {{ {sys.argv[2]} }})())</script></body>"))
END
    browse "file://$PWD/probed.html" "${@:3}" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p' | head -n 1
}

check "figures and tables show the numbers of the data"
python3 "$source_dir/tests/python/make_results.py" sweep.jsonl
runs "$grail" report sweep.jsonl -o page.html
browse "file://$PWD/page.html" --enable-logging=stderr --log-net-log="$PWD/net.json" >page.dom
shows_its_data page.dom
! grep -q CONSOLE browser.log || { cat browser.log >&2; fail "the script complains"; }

check "nothing is loaded but the page"
python3 - net.json <<'END' || fail "the page asks for something"
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as file:
    log = json.load(file)
own = re.compile(r"(file|chrome[a-z-]*|data|devtools|about):|https?://[a-z0-9.]*\.google(apis)?\.com/") # the browser's
urls = {str(event.get("params", {}).get("url", "")) for event in log["events"]} - {""}
others = [url for url in urls if not own.match(url)]
sys.exit(f"{others}" if others else 0)
END
[[ $(probe page.html 'return performance.getEntriesByType("resource").length') == 0 ]] || fail "resources are loaded"

check "what the reader chooses changes all figures"
script='const count = () => document.querySelectorAll("figure.accuracy g[data-row]").length; const all = count();
    const x = () => document.querySelector("figure.accuracy g[data-row]").dataset.x; const before = x();
    document.getElementById("x-cut").click(); const other = x() !== before;
    [...document.querySelectorAll(".legend button")].find((b) => b.textContent.trim() === "full").click();
    const fewer = count(); const gone = document.querySelectorAll(".legend button[aria-pressed=false]").length;
    document.getElementById("show-all").click();
    return [other, fewer < all && fewer > 0, gone >= 3, count() === all].join()'
[[ $(probe page.html "$script") == true,true,true,true ]] || fail "choices do nothing"
script='document.querySelector("details").open = true; document.querySelector("details").dispatchEvent(new Event("toggle"));
    const rows = () => document.querySelectorAll("details tbody tr").length; const all = rows();
    const search = document.querySelector("input[type=search]"); search.value = "WANDA vit-tiny open";
    search.dispatchEvent(new Event("input")); const none = rows(); search.value = "WANDA vit-tiny";
    search.dispatchEvent(new Event("input")); return [all, none, rows() > 0 && rows() < all].join()'
[[ $(probe page.html "$script") == 1318,0,true ]] || fail "the filter of cells does nothing"
script='const g = document.querySelector("figure.tradeoff g[data-row]");
    g.dispatchEvent(new PointerEvent("pointerover", {bubbles: true})); const tip = document.getElementById("tip");
    return !tip.hidden && tip.textContent.includes("against the dense network")'
[[ $(probe page.html "$script") == true ]] || fail "hovering shows nothing"

check "a card that offers a neighbour's cut names the neighbour"
python3 - sweep.jsonl <<'END' >one.jsonl
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
keys = ("selector", "sparsity", "compensate", "repair")
cells = [line for line in lines if "cell" in line and line.get("top1") is not None and line["cell"]["checkpoint"] == "resnet18"]
best = max(cells, key=lambda line: line["top1"])
for line in lines:
    if "cell" not in line or all(line["cell"].get(key) == best["cell"].get(key) for key in keys):
        print(json.dumps(line))
END
runs "$grail" report one.jsonl -o one.html
browse "file://$PWD/one.html" >one.dom
grep -q 'The same cut as under "at most 1[^"]* lost", which has its command\.' one.dom || fail "no card names its neighbour"

check "names that are markup stay names"
python3 "$source_dir/tests/python/make_results.py" hostile.jsonl --hostile
runs "$grail" report hostile.jsonl -o hostile.html
browse "file://$PWD/hostile.html" --enable-logging=stderr >hostile.dom
shows_its_data hostile.dom
! grep -q CONSOLE browser.log || { cat browser.log >&2; fail "the script complains"; }
! grep -q $'\xe2\x80\xae\|\x01' hostile.dom || fail "marks of direction are shown"

check "a phone is wide enough"
fits='const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg, pre") &&
    e.getBoundingClientRect().right > 390.5).map((e) => e.tagName + "." + e.className);
    return document.documentElement.scrollWidth <= 390 && wide.length === 0 ? "fits" : wide.join()'
frame() { # in a frame of that width, since a window may not be so narrow
    python3 - "$1" "$2" <<'END' >framed.html
import html, re, sys
with open(sys.argv[1], encoding="utf-8") as file:
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read())
text = text.replace("</body>", f"<script>parent.document.title = String((() => {{ {sys.argv[2]} }})())</script></body>")
print(f'<!doctype html><title></title><iframe width="390" height="800" style="border:0" srcdoc="{html.escape(text)}"></iframe>')
END
    browse "file://$PWD/framed.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p' | head -n 1
}
for page in page hostile; do
    said=$(frame "$page.html" "$fits")
    [[ $said == fits ]] || fail "$page.html is wider than 390 pixels: $said"
done

check "few results, and numbers that are missing, give a page"
head -n 1 sweep.jsonl >none.jsonl
{
    head -n 1 sweep.jsonl
    echo '{"cell": {"checkpoint": "a", "selector": "wanda", "sparsity": 0.5, "compensate": "full"}, "top1": NaN}'
} | sed 's/NaN/null/' >missing.jsonl
{
    head -n 1 sweep.jsonl
    echo '{"dense": {"checkpoint": "a", "perplexity": 6, "perplexity_error": 0.03, "parameters": 1000}}'
    echo '{"cell": {"checkpoint": "a", "selector": "wanda", "sparsity": 0.2, "compensate": "full"}, "perplexity": 6.24,
        "perplexity_error": 0.03, "parameters": 800}' | tr -d '\n'
    echo
} >one.jsonl
for name in none missing one; do
    runs "$grail" report "$name.jsonl" -o "$name.html"
    browse "file://$PWD/$name.html" --enable-logging=stderr >"$name.dom"
    ! grep -q CONSOLE browser.log || { cat browser.log >&2; fail "the script complains of $name.jsonl"; }
    shows_its_data "$name.dom"
    ! grep -qiE 'NaN[^"a-z]|undefined|Infinity' <(sed -n '/<main>/,/<\/main>/p' "$name.dom") || fail "$name.html shows no number"
done
says "No cell has been measured yet" none.dom
says "The dense network was not measured" missing.dom
says "has 4.0&nbsp;% (2.6 to 5.4) more" one.dom

check "figures as files: the same in Chromium and in node"
mkdir with-chromium
printf '#!/bin/sh\nPATH=%s exec %s "$@"\n' "$PATH" "$chromium" >with-chromium/chromium # it may be a script itself
chmod +x with-chromium/chromium
runs env PATH="$PWD/with-chromium" "$grail" report sweep.jsonl -o drawn.html --svg drawn
python3 - drawn <<'END' || fail "not 27 well-formed figures"
import pathlib, sys, xml.etree.ElementTree
files = sorted(pathlib.Path(sys.argv[1]).iterdir())
for file in files:
    root = xml.etree.ElementTree.parse(file).getroot()
    if root.tag != "{http://www.w3.org/2000/svg}svg" or any(e.tag.endswith("}script") for e in root.iter()):
        sys.exit(f"{file}: {root.tag}")
    if "var(" in file.read_text(encoding="utf-8"):
        sys.exit(f"{file}: does not stand without the page")
sys.exit(0 if len(files) == 27 else f"{len(files)} files")
END
cmp page.html drawn.html
if command -v node >/dev/null; then
    mkdir with-node
    ln -s "$(command -v node)" with-node/node
    runs env PATH="$PWD/with-node" "$grail" report sweep.jsonl -o drawn.html --svg by-node
    diff -r drawn by-node || fail "node draws other figures"
    runs env PATH="$PWD/with-node" "$grail" report hostile.jsonl -o hostile.html --svg hostile
    python3 -c 'import pathlib, sys, xml.etree.ElementTree
for file in pathlib.Path("hostile").iterdir(): xml.etree.ElementTree.parse(file)' || fail "hostile names break figures"
    printf '%s\n' '#!/bin/sh' 'echo nothing' >with-node/node-fails
    mkdir with-liar
    ln -s ../with-node/node-fails with-liar/node
    chmod +x with-node/node-fails
    rm -rf out
    refuses 1 "did not run the script that draws SVG files" env PATH="$PWD/with-liar" "$grail" report \
        sweep.jsonl -o out --svg liar
fi
