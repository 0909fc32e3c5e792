#!/usr/bin/env bash
# The report of a sweep as people make it: page and figures, hostile names, an interrupted sweep, many
# checkpoints, and results that are refused.
#
# usage: test_report.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"

# make_results FILE OPTIONS...
make_results() {
    python3 "$source_dir/tests/cli/make_results.py" "$@"
}

# parses_as_page FILE: elements nest, the data and one script that a policy names, nothing from elsewhere, and no
# text of the results outside of the data
parses_as_page() {
    python3 - "$1" <<'END' || fail "$1 is not a well-formed page"
import base64, hashlib, html.parser, json, re, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.count, self.inside = [], {}, {}

    def handle_starttag(self, tag, attributes):
        kind = dict(attributes).get("id", tag) if tag == "script" else tag
        self.count[kind] = self.count.get(kind, 0) + 1
        if tag != "meta":
            self.open.append(kind)
        for name, value in attributes:
            if name in ("src", "srcset", "href", "style") or name.startswith("on"):
                sys.exit(f"<{tag} {name}>")

    def handle_data(self, text):
        if self.open:
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + text

    def handle_endtag(self, tag):
        if not self.open or (self.open.pop() != tag and tag != "script"):
            sys.exit(f"</{tag}> at {self.getpos()}")

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
page = Page()
page.feed(text)
page.close()
if page.open or page.count["script"] != 1 or page.count["data"] != 1 or page.count["title"] != 1:
    sys.exit(f"open: {page.open}, elements: {page.count}")
data = json.loads(page.inside["data"])
if set(page.inside["data"]) & set("<>&\u2028\u202e\u0001") or not page.inside["data"].strip():
    sys.exit("the data holds characters of markup or control")
if set(text) & {"\u202e", "\u0001", "\u2028"}:
    sys.exit("control characters")
policy = re.search("Content-Security-Policy\" content=\"([^\"]*)", text).group(1)
for part in ("style", "script"):
    digest = base64.b64encode(hashlib.sha256(page.inside[part].encode()).digest()).decode()
    if f"{part}-src 'sha256-{digest}'" not in policy:
        sys.exit(f"the policy does not name the {part}: {policy}")
if not policy.startswith("default-src 'none'; ") or "unsafe" in policy:
    sys.exit(f"policy: {policy}")
END
}

# has_data FILE CODE: the expression is true of the page's data d
has_data() {
    python3 - "$1" "$2" <<'END' || fail "not true of the data of $1: $2"
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
d = json.loads(re.search('<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))
sys.exit(not eval(f"({sys.argv[2]})"))
END
}

# tables_are_of PAGE DIRECTORY: a table for each figure, with the rows and numbers of the page
tables_are_of() {
    python3 - "$1" "$2" <<'END' || fail "the tables of $2 are not the data of $1"
import json, pathlib, re, sys
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
data = json.loads(re.search('<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))
files = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(sys.argv[2]).iterdir()}
if set(files) != {f"{figure['file']}.tsv" for figure in data["figures"]}:
    sys.exit(f"{sorted(files)}")
for figure in data["figures"]:
    head, *lines = [line.split("\t") for line in files[f"{figure['file']}.tsv"].rstrip("\n").split("\n")]
    table = data["tables"][figure["table"]]
    if head != ["figure", *table["columns"]] or len(lines) != len(figure["rows"]):
        sys.exit(f"{figure['file']}: {head}, {len(lines)} lines")
    for row, cells in zip(figure["rows"], lines):
        for value, cell in zip([figure["kind"], *table["rows"][row]], cells, strict=True):
            is_equal = cell == "" if value is None else isinstance(value, str) or json.loads(cell) == value
            if not is_equal or any(ord(c) < 32 or c == "\u202e" for c in cell):
                sys.exit(f"{figure['file']}: {cell!r} is not {value!r}")
END
}

check "a sweep of two checkpoints and six selectors"
make_results sweep.jsonl
runs "$grail" report sweep.jsonl -o report.html --tsv figures
says "report.html: 12 figures of 1318 cells and 2 checkpoints; 2 cells failed" stdout
[[ ! -s stderr ]] || { show; fail "prints on stderr"; }
parses_as_page report.html
tables_are_of report.html figures
has_data report.html "[f['kind'] for f in d['figures']] == ['tradeoff', 'scatter'] +
    2 * ['accuracy', 'gain', 'samples', 'sites', 'cost']"
has_data report.html "[f['network'] for f in d['figures'][2:]] == 5 * ['resnet18'] + 5 * ['vit-tiny']"
has_data report.html "d['facts']['failed'] == 2 and 'the statistics hold a NaN' in d['tables']['failures']['rows'][0][-1]"

check "every selector that a page knows has a marker of its own"
python3 - report.html <<'END' || fail "markers repeat"
import re, sys

page = open(sys.argv[1]).read()
selectors = re.findall(r'"[^"]+"', re.search(r'"selectors":\[([^\]]*)\]', page)[1])
markers = re.findall(r"\['\w+', \w+\]", re.search(r"const MARKERS = \[(.*?)\];", page, re.S)[1])
sys.exit(0 if len(set(markers)) == len(markers) >= len(selectors) > 10 else f"{len(selectors)} selectors, {len(markers)} markers")
END

check "the same results give the same bytes, and replace a page"
cp report.html first.html
sed -i 's/resnet18/resnet19/g' report.html
runs "$grail" report sweep.jsonl --output report.html --quiet
[[ ! -s stdout && ! -s stderr ]] || { show; fail "--quiet prints text"; }
cmp first.html report.html
: >report.html
runs "$grail" report sweep.jsonl -o report.html --quiet --tsv figures
cmp first.html report.html

check "only a report is replaced"
# keeps FILE TEXT OPTIONS...: refused with TEXT, and FILE keeps its bytes
keeps() {
    local file=$1 said=$2
    shift 2
    cp -P "$file" kept
    refuses 1 "$said" "$grail" report sweep.jsonl "$@"
    cmp "$file" kept || fail "$file was changed"
    rm kept
}
keeps sweep.jsonl "'sweep.jsonl' is the results file" -o sweep.jsonl
echo '<html><title>mine</title>' >mine.html
keeps mine.html "'mine.html' exists and was not written by grail report; choose another name or delete the file" \
    -o mine.html
cp figures/02-scatter.tsv mine.tsv
keeps mine.tsv "'mine.tsv' exists and was not written by grail report" -o mine.tsv
ln -s report.html link.html
keeps link.html "'link.html' is a symbolic link, and a report can replace only a regular file" -o link.html
[[ -L link.html ]] || fail "link.html is no longer a link"
refuses 1 "'figures' is a directory, and a report can replace only a regular file" "$grail" report sweep.jsonl \
    -o figures
refuses 1 "'/dev/null' is a device or a pipe, and a report" "$grail" report sweep.jsonl -o /dev/null
[[ -c /dev/null ]] || fail "/dev/null is no longer a device"
refuses 1 "'/dev/stdout' is a symbolic link" "$grail" report sweep.jsonl -o /dev/stdout
mkfifo pipe.html
refuses 1 "'pipe.html' is a device or a pipe" "$grail" report sweep.jsonl -o pipe.html
mkdir mine
echo 'my own figures' >mine/02-scatter.tsv
keeps mine/02-scatter.tsv "'mine/02-scatter.tsv' exists and was not written by grail report" -o out \
    --tsv mine
mkdir empty
refuses 1 "SVG files are drawn by the page's script, which needs node or chromium" env PATH="$PWD/empty" "$grail" \
    report sweep.jsonl -o out --svg drawn
[[ ! -e drawn ]] || fail "made a directory for figures that cannot be drawn"

check "what draws figures leaves no file: node reads the page, Chromium finds it below TMPDIR"
# drawer NAME LINE: a directory NAME with a program NAME that does LINE and draws no figure
drawer() {
    mkdir "$1"
    printf '#!/bin/sh\nPATH=%s\n%s\necho "{}"\n' "$PATH" "$2" >"$1/$1"
    chmod +x "$1/$1"
}
mkdir temporary
drawer node "ls -A $PWD/temporary >$PWD/seen; cat >$PWD/read.html"
drawer chromium "for page; do :; done; page=\${page#file://}; echo \$page >$PWD/seen; cp \${page%#svg-files} $PWD/read.html"
for program in node chromium; do
    rm -f seen read.html
    runs env PATH="$PWD/$program" TMPDIR="$PWD/temporary" "$grail" report sweep.jsonl -o drawn.html --svg drawn
    cmp read.html drawn.html || fail "$program is given another page"
    [[ $program != node || ! -s seen ]] || fail "a file lies in $(cat seen)"
    [[ $program == node || $(cat seen) == "$PWD/temporary/grail-report-"??????/page.html#svg-files ]] ||
        fail "the page lies in $(cat seen)"
    [[ -z $(ls -A temporary) ]] || fail "left $(ls temporary)"
done

check "names that are markup stay names"
make_results hostile.jsonl --hostile
runs "$grail" report hostile.jsonl -o hostile.html --tsv hostile
parses_as_page hostile.html
tables_are_of hostile.html hostile

check "many checkpoints are grouped by architecture"
make_results many.jsonl --checkpoints 10
runs "$grail" report many.jsonl -o many.html
says "of 6590 cells and 10 checkpoints" stdout
parses_as_page many.html
has_data many.html "[(n['name'], n['is_architecture'], n['checkpoints']) for n in d['networks']] ==
    [('resnet', True, 5), ('vit', True, 5)]"

check "a sweep that was interrupted"
head -c 200000 sweep.jsonl >part.jsonl
runs "$grail" report part.jsonl -o part.html
says "grail: warning: line $(wc -l <part.jsonl | awk '{ print $1 + 1 }'), the last of 'part.jsonl', is incomplete" stderr
parses_as_page part.html
has_data part.html "d['facts']['cut_line'] > 0"

check "a sweep without results yet"
head -n 1 sweep.jsonl >begun.jsonl
runs "$grail" report begun.jsonl -o begun.html
says "begun.html: 0 figures of 0 cells and 0 checkpoints" stdout
parses_as_page begun.html

check "refused input"
refuses 2 "grail report: give --output FILE; see grail report --help" "$grail" report sweep.jsonl
refuses 1 "cannot open 'none.jsonl'" "$grail" report none.jsonl -o out
refuses 1 "is the results file" "$grail" report sweep.jsonl -o sweep.jsonl
refuses 1 "'page.json': a page is written; give a name that ends in .html" "$grail" report sweep.jsonl -o page.json
refuses 1 "these are not the results of a sweep" "$grail" report "$demo/model/config.json" -o out
{
    head -n 4 sweep.jsonl
    echo '{"cell": {"checkpoint": "resnet18", "selector": "wanda", "sparsity": 1.5}}'
} >bad.jsonl
refuses 1 "bad.jsonl: line 5: \"sparsity\" is 1.5, expected a number in [0, 1)" "$grail" report bad.jsonl -o out
refuses 1 "cannot create 'nowhere/out.html'" "$grail" report sweep.jsonl -o nowhere/out.html
(($(grep -c . sweep.jsonl) == 1323)) || fail "the results were changed"
