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

# parses_as_page FILE: elements nest, one script, nothing from elsewhere
parses_as_page() {
    python3 - "$1" <<'END' || fail "$1 is not a well-formed page"
import html.parser, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.count, self.text = [], {}, ""

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag != "meta":
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "srcset", "data") or name.startswith("on"):
                sys.exit(f"<{tag} {name}>")
            if name == "href" and not value.startswith("#"):
                sys.exit(f"link to {value}")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            sys.exit(f"</{tag}> at {self.getpos()}")

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
page = Page()
page.feed(text)
page.close()
if page.open:
    sys.exit(f"open: {page.open}")
if page.count.get("script") != 1 or page.count.get("figure", 0) < 1:
    sys.exit(f"elements: {page.count}")
if "\u202e" in text or "\u0001" in text:
    sys.exit("control characters")
END
}

# parse_as_figures DIRECTORY COUNT
parse_as_figures() {
    python3 - "$1" "$2" <<'END' || fail "not $2 well-formed figures in $1"
import pathlib, sys, xml.etree.ElementTree
files = sorted(pathlib.Path(sys.argv[1]).iterdir())
for file in files:
    root = xml.etree.ElementTree.parse(file).getroot()
    if root.tag != "{http://www.w3.org/2000/svg}svg":
        sys.exit(f"{file}: {root.tag}")
    if any(e.tag.endswith("}script") for e in root.iter()):
        sys.exit(f"{file}: script")
sys.exit(0 if len(files) == int(sys.argv[2]) else f"{len(files)} files")
END
}

check "a sweep of two checkpoints and six selectors"
make_results sweep.jsonl
runs "$grail" report sweep.jsonl -o report.html --svg figures
says "report.html: 12 figures of 1318 cells and 2 checkpoints; 2 cells failed" stdout
[[ ! -s stderr ]] || { show; fail "prints on stderr"; }
parses_as_page report.html
parse_as_figures figures 27
says "site &#39;layer4.1.conv2&#39;: the statistics hold a NaN" report.html
for plot in "Before and after" "Accuracy against size, resnet18" "Gain against size, vit-tiny" \
    "Gain against calibration samples, vit-tiny" "Error of every site before and after, resnet18" \
    "Time and memory, resnet18"; do
    says "<h3>$plot</h3>" report.html
done

check "the same results give the same bytes, and replace a page"
cp report.html first.html
sed -i 's/resnet18/resnet19/g' report.html
runs "$grail" report sweep.jsonl --output report.html --quiet
[[ ! -s stdout && ! -s stderr ]] || { show; fail "--quiet prints text"; }
cmp first.html report.html
: >report.html
runs "$grail" report sweep.jsonl -o report.html --quiet --svg figures
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
cp figures/02-scatter.svg mine.svg
keeps mine.svg "'mine.svg' exists and was not written by grail report" -o mine.svg
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
echo '<svg xmlns="http://www.w3.org/2000/svg"/>' >mine/02-scatter.svg
keeps mine/02-scatter.svg "'mine/02-scatter.svg' exists and was not written by grail report" -o out \
    --svg mine

check "names that are markup stay names"
make_results hostile.jsonl --hostile
runs "$grail" report hostile.jsonl -o hostile.html --svg hostile
parses_as_page hostile.html
parse_as_figures hostile 27

check "many checkpoints are grouped by architecture"
make_results many.jsonl --checkpoints 10
runs "$grail" report many.jsonl -o many.html
says "of 6590 cells and 10 checkpoints" stdout
parses_as_page many.html
says "<h3>Accuracy against size, resnet</h3>" many.html
says "Means over 5 checkpoints of this architecture" many.html

check "a sweep that was interrupted"
head -c 200000 sweep.jsonl >part.jsonl
runs "$grail" report part.jsonl -o part.html
says "grail: warning: line $(wc -l <part.jsonl | awk '{ print $1 + 1 }'), the last of 'part.jsonl', is incomplete" stderr
parses_as_page part.html
says "The report leaves this line out" part.html

check "a sweep without results yet"
head -n 1 sweep.jsonl >begun.jsonl
runs "$grail" report begun.jsonl -o begun.html
says "begun.html: 0 figures of 0 cells and 0 checkpoints" stdout

check "refused input"
refuses 2 "grail report: give --output FILE; see grail report --help" "$grail" report sweep.jsonl
refuses 1 "cannot open 'none.jsonl'" "$grail" report none.jsonl -o out
refuses 1 "is the results file" "$grail" report sweep.jsonl -o sweep.jsonl
refuses 1 "these are not the results of a sweep" "$grail" report "$demo/model/config.json" -o out
{
    head -n 4 sweep.jsonl
    echo '{"cell": {"checkpoint": "resnet18", "selector": "wanda", "sparsity": 1.5}}'
} >bad.jsonl
refuses 1 "bad.jsonl: line 5: \"sparsity\" is 1.5, expected a number in [0, 1)" "$grail" report bad.jsonl -o out
refuses 1 "cannot create 'nowhere/out.html'" "$grail" report sweep.jsonl -o nowhere/out.html
(($(grep -c . sweep.jsonl) == 1323)) || fail "the results were changed"
