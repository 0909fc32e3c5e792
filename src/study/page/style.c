#include "study/page/style.h"

#include "study/page/axis.h"

#include <string.h>

/* Contrast with the background: text 4.5 or more, lines and markers 3 or more (WCAG 2.1). A colour
 * means one thing on the whole page. */
static const struct {
    const char *name, *light, *dark;
} colours[] = {
    {"paper", "#fdfcf9", "#15171a"},
    {"ink", "#1c1c1a", "#e8e6e0"},
    {"soft", "#5e5b54", "#a9a69e"},
    {"rule", "#e1ddd3", "#2f3338"},
    {"axis", "#8b877d", "#6e7278"},
    {"wash", "#f5f2ea", "#1d2024"},
    {"link", "#1a5c93", "#7db8e8"},
    /* variants: none, REPAIR, grail, grail + REPAIR, full, full + REPAIR */
    {"v0", "#6f6d68", "#a3a19b"},
    {"v1", "#a87400", "#dfb04a"},
    {"v2", "#0067b1", "#5fb0ee"},
    {"v3", "#00857a", "#3fc6b2"},
    {"v4", "#c2402a", "#ff8068"},
    {"v5", "#8d4aa3", "#c99be0"},
    /* healed variants: block, model, block,model */
    {"v6", "#5f7d12", "#a8c95a"},
    {"v7", "#b0206e", "#ff7fb8"},
    {"v8", "#3d3fa8", "#9aa0ff"},
    /* stages: calibrate, compensate, heal, evaluate */
    {"q0", "#8791a0", "#7d8898"},
    {"q1", "#5a6675", "#b3bdcb"},
    {"q2", "#343d49", "#e3e8f0"},
    {"q3", "#95897a", "#8c8375"},
};

enum { COLOURS = sizeof colours / sizeof colours[0], FIRST_SERIES = 7 };

/* Elements with a colour of their own; lines and markers take that of their series through
 * `color`. */
static const struct {
    const char *selector, *property, *colour;
} painted[] = {
    {".z", "stroke", "ink"},   {".d", "color", "ink"},   {".y", "stroke", "paper"},
    {".bg", "fill", "paper"},  {".o", "fill", "paper"},  {".f,.n,.k", "fill", "ink"},
    {".t,.u", "fill", "soft"}, {".g", "stroke", "rule"}, {".a", "stroke", "axis"},
    {".r", "stroke", "soft"},  {".w", "stroke", "axis"},
};

/* a axis, c centred, d dense, e end, f figure title, g grid, h hover, i interval, k key, l line, m
 * marker, n panel title, o hollow, p pointer area, q bar, r reference, t tick label, u axis label,
 * w whisker, y halo, z Pareto line */
static const char drawing[] =
    "svg{font-family:system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif}"
    ".f{font-size:16px;font-weight:600}.n{font-size:13px;font-weight:600}.k{font-size:12px}"
    ".t,.u{font-size:11px}.t{font-variant-numeric:tabular-nums}"
    ".c{text-anchor:middle}.e{text-anchor:end}"
    ".g,.a{stroke-width:1}.r{stroke-width:1;stroke-dasharray:4 3}.w{stroke-width:1.5}"
    ".l{fill:none;stroke:currentColor;stroke-width:1.7;stroke-linejoin:round}"
    ".i{fill:none;stroke:currentColor;stroke-width:1;opacity:.6}.q{fill:currentColor}"
    ".z{fill:none;stroke-width:1.2;opacity:.7}"
    ".m{fill:currentColor;stroke:currentColor;stroke-width:1.4;stroke-linejoin:round}"
    ".y{stroke-width:4;stroke-linejoin:round;paint-order:stroke}"
    ".p{fill:none;pointer-events:all}";

static const char page_text[] =
    "*{box-sizing:border-box}"
    "html{-webkit-text-size-adjust:100%;text-size-adjust:100%}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:17px/1.55 Charter,"
    "'Bitstream Charter','Iowan Old Style','Palatino Linotype',Palatino,Georgia,serif}"
    "main{max-width:1180px;margin:0 auto;padding:56px 28px 72px}"
    "h1{font-size:34px;line-height:1.15;font-weight:600;letter-spacing:-.01em;margin:0 0 6px}"
    "h2{font-size:24px;line-height:1.25;font-weight:600;margin:64px 0 4px;padding-top:20px;"
    "border-top:1px solid var(--rule);overflow-wrap:anywhere;scroll-margin-top:48px}"
    "h3{font-size:18px;font-weight:600;margin:0 0 8px;overflow-wrap:anywhere}"
    "a{color:var(--link);text-underline-offset:.15em}"
    "p{max-width:46em;margin:0 0 12px;overflow-wrap:anywhere}"
    ".by{color:var(--soft);font-size:15px;margin-bottom:28px}"
    ".lead{font-size:20px;line-height:1.5}"
    ".note{color:var(--soft);font-size:15px;margin:4px 0 0}"
    ".decision h3{margin-top:28px}h4{font-size:15px;font-weight:600;margin:0 0 "
    "6px;color:var(--soft)}"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:18px}"
    ".card{border:1px solid var(--rule);border-radius:6px;padding:14px 16px;min-width:0}"
    ".card p{font-size:15px;line-height:1.45;margin:0 0 6px}"
    ".card .cut{font-size:20px;line-height:1.3;font-weight:600}.card .doubt{color:var(--soft)}"
    ".command "
    "span{white-space:nowrap}.command{font-size:12.5px;white-space:pre-wrap;overflow-wrap:anywhere;"
    "user-select:all;"
    "-webkit-user-select:all;padding:10px 12px;margin:8px 0 0;border-radius:4px;max-height:none}"
    ".copy{font:13px/1 system-ui,-apple-system,'Segoe UI',Arial,sans-serif;margin-top:8px;"
    "padding:6px 12px;color:var(--link);background:none;border:1px solid var(--axis);"
    "border-radius:4px;cursor:pointer}"
    ".axes{position:sticky;top:0;z-index:2;background:var(--paper);border:0;margin:40px 0 0;"
    "padding:8px 0;display:flex;flex-wrap:wrap;gap:4px 18px;border-bottom:1px solid var(--rule);"
    "font:14px/1.5 system-ui,-apple-system,'Segoe UI',Arial,sans-serif}"
    ".tradeoff .panels{grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));"
    "max-width:1080px}.tradeoff .panels svg{max-width:510px}"
    ".axes legend{float:left;padding:0;margin-right:18px;color:var(--soft)}"
    ".axes label{cursor:pointer;white-space:nowrap}.axes input{margin:0 2px 0 "
    "0;vertical-align:-1px}"
    ".remark{border-left:3px solid var(--v1);padding-left:12px}"
    "nav{font-size:15px;margin:20px 0 0}nav a{margin-right:18px;overflow-wrap:anywhere}"
    "dl{display:flex;flex-wrap:wrap;gap:14px 44px;"
    "margin:28px 0 0;padding:18px 0;border:solid var(--rule);border-width:1px 0}"
    "dt{color:var(--soft);font-size:13px}dd{margin:0;font-size:17px;overflow-wrap:anywhere}"
    "figure{margin:36px 0 0}"
    ".panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(310px,1fr));"
    "gap:26px 30px;align-items:start}"
    ".four{max-width:752px}"
    ".panels svg{display:block;width:100%;max-width:440px;height:auto;overflow:visible}"
    "figcaption{max-width:52em;color:var(--soft);font-size:15px;line-height:1.5;margin-top:12px}"
    "figcaption b{color:var(--ink)}"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;margin:0 0 14px;padding:0;"
    "font:13px/1.6 system-ui,-apple-system,'Segoe UI',Arial,sans-serif}"
    ".legend svg{vertical-align:-1px;margin-right:3px}";

static const char page_tables[] =
    "section>h3,section>div>h3,details>h3{margin:36px 0 0}"
    /* Where a table is wider than the page, a shadow shows at the side that hides a part of it. */
    ".scroll{overflow-x:auto;margin:8px 0 0;background:"
    "linear-gradient(90deg,var(--paper) 50%,transparent) left/48px 100% no-repeat local,"
    "linear-gradient(270deg,var(--paper) 50%,transparent) right/48px 100% no-repeat local,"
    "linear-gradient(90deg,var(--axis),transparent) left/16px 100% no-repeat scroll,"
    "linear-gradient(270deg,var(--axis),transparent) right/16px 100% no-repeat scroll}"
    ".scroll:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:3px}"
    "table{border-collapse:collapse;font:14px/1.35 system-ui,-apple-system,'Segoe UI',Arial,"
    "sans-serif;font-variant-numeric:tabular-nums}"
    "th,td{padding:5px 12px;text-align:right;vertical-align:top;white-space:nowrap}"
    "th{font-weight:600}thead th{border-top:1.5px solid var(--ink);"
    "border-bottom:1px solid var(--axis)}"
    "tbody{border-bottom:1.5px solid var(--ink)}"
    "tbody th{font-weight:500}tbody tr.first>*{border-top:1px solid var(--rule)}"
    "tbody tr:hover>td{background:var(--wash)}"
    "th:first-child,td:first-child{padding-left:0}"
    ".text{text-align:left}td.text.long,th.text.long{white-space:normal;min-width:9em;"
    "max-width:34em;overflow-wrap:anywhere}"
    "td small{display:block;color:var(--soft);font-size:11.5px}"
    "details{margin:32px 0 0}summary{cursor:pointer;font-weight:600;font-size:18px}"
    "pre{font:13px/1.5 ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "background:var(--wash);padding:16px;overflow:auto;max-height:32em}"
    ".tip{position:fixed;z-index:9;max-width:min(340px,90vw);padding:7px 10px;border-radius:4px;"
    "background:var(--ink);color:var(--paper);pointer-events:none;white-space:pre-line;"
    "overflow-wrap:anywhere;font:12.5px/1.45 system-ui,-apple-system,'Segoe UI',Arial,sans-serif}"
    ".h:hover .m{stroke-width:3}"
    "@media(max-width:640px){body{font-size:16px}main{padding:32px 18px 48px}h1{font-size:28px}"
    ".lead{font-size:18px}.panels{grid-template-columns:1fr}h2{margin-top:48px}"
    ".axes{position:static}th,td{padding:5px 7px}td.text.long,th.text.long{min-width:6.5em}}"
    "@media "
    "print{:root{--paper:#fff}body{font-size:10.5pt}main{max-width:none;padding:0}nav,.tip,.copy,."
    "axes{display:"
    "none}.cards{grid-template-columns:repeat(3,1fr);gap:10px}.card{break-inside:avoid;padding:8px}"
    ".card p{font-size:9pt}.card .cut{font-size:12pt}.command{font-size:7.5pt}"
    ".panels{grid-template-columns:repeat(3,1fr);gap:14px}.four,.tradeoff "
    ".panels{grid-template-columns:1fr 1fr}"
    "figure{break-inside:auto}.panels "
    "svg,tr{break-inside:avoid}h2,h3,h3+p,.legend{break-after:avoid}"
    ".scroll{overflow:visible}table{font-size:8pt}td small{font-size:6.5pt}th,td{padding:2px 5px}"
    "pre{max-height:none;white-space:pre-wrap}}"
    "@page{margin:16mm}";

static const char script[] =
    "(()=>{const t=document.createElement('div');t.className='tip';t.hidden=true;"
    "document.body.append(t);"
    "for(const g of document.querySelectorAll('.h')){const e=g.querySelector('title');"
    "if(e){g.dataset.t=e.textContent;e.remove()}}"
    "addEventListener('pointerover',e=>{"
    "const g=e.target.closest?e.target.closest('.h'):null;t.hidden=!g;if(!g)return;"
    "t.textContent=g.dataset.t;const b=g.getBoundingClientRect(),w=t.offsetWidth,h=t.offsetHeight;"
    "t.style.left=Math.max(6,Math.min(innerWidth-w-6,b.left+b.width/2-w/2))+'px';"
    "t.style.top=(b.top-h-8<4?b.bottom+8:b.top-h-8)+'px'});"
    "addEventListener('scroll',()=>{t.hidden=true},true);"
    "for(const p of document.querySelectorAll('.command')){"
    "const b=document.createElement('button');b.className='copy';b.type='button';"
    "b.textContent='Copy';b.onclick=async()=>{try{"
    "await navigator.clipboard.writeText(p.textContent);b.textContent='Copied'}catch{"
    "getSelection().selectAllChildren(p);"
    "b.textContent=document.execCommand('copy')?'Copied':'Selected'}"
    "setTimeout(()=>{b.textContent='Copy'},2e3)};p.after(b)}})()";

/* Panels of another axis than the chosen one are hidden; all show where a page has no choice, and
 * in browsers that do not know :has. */
static void write_views(markup *page)
{
    for (int i = 0; i < AXES; i++) {
        const char *name = axis_name((axis_kind)i);
        markup_format(page, "main:has(.axes :checked:not(#x-%s)) .x-%s{display:none}", name, name);
    }
}

static void write_variables(markup *page, bool dark)
{
    markup_raw(page, ":root{");
    for (int i = 0; i < COLOURS; i++) {
        markup_format(page, "--%s:%s;", colours[i].name, dark ? colours[i].dark : colours[i].light);
    }
    markup_raw(page, "}");
}

static const char *light(const char *name)
{
    for (int i = 0; i < COLOURS; i++) {
        if (strcmp(colours[i].name, name) == 0) {
            return colours[i].light;
        }
    }
    return "";
}

void style_write_page(markup *page)
{
    write_variables(page, false);
    markup_raw(page, "@media screen and (prefers-color-scheme:dark){");
    write_variables(page, true);
    markup_raw(page, "}\n");
    markup_raw(page, page_text);
    markup_raw(page, page_tables);
    write_views(page);
    markup_raw(page, drawing);
    for (size_t i = 0; i < sizeof painted / sizeof painted[0]; i++) {
        markup_format(page, "%s{%s:var(--%s)}", painted[i].selector, painted[i].property,
                      painted[i].colour);
    }
    for (int i = FIRST_SERIES; i < COLOURS; i++) {
        markup_format(page, ".%s{color:var(--%s)}", colours[i].name, colours[i].name);
    }
}

void style_write_svg(markup *out)
{
    markup_raw(out, drawing);
    for (size_t i = 0; i < sizeof painted / sizeof painted[0]; i++) {
        markup_format(out, "%s{%s:%s}", painted[i].selector, painted[i].property,
                      light(painted[i].colour));
    }
    for (int i = FIRST_SERIES; i < COLOURS; i++) {
        markup_format(out, ".%s{color:%s}", colours[i].name, colours[i].light);
    }
}

void style_write_script(markup *page)
{
    markup_raw(page, script);
}
