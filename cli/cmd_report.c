/* grail report: draws the results of a sweep as an HTML page. */
#include "commands.h"
#include "print.h"

#include <grail-study/report.h>

static const char *output, *tsv_directory, *svg_directory;
static bool quiet;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &output, "FILE", NULL,
     .help = "HTML page to write, such as report.html; short form: -o", .need = REQUIRED},
    {GROUP_OUTPUT, "tsv", OPTION_TEXT, &tsv_directory, "DIR", NULL,
     .help = "also write the data of every figure as tab-separated values into this directory"},
    {GROUP_OUTPUT, "svg", OPTION_TEXT, &svg_directory, "DIR", NULL,
     .help = "also write every figure as an SVG file into this directory; needs node or Chromium"},
    {GROUP_OUTPUT, "quiet", OPTION_FLAG, &quiet, NULL, NULL, .help = "print only errors"},
    {0},
};
const option *const report_options = table;

static void print_summary(const grail_report *r)
{
    print_out("%s: %lld figures of %lld cells and %lld checkpoint%s", output, (long long)r->figures,
              (long long)r->cells, (long long)r->checkpoints, r->checkpoints == 1 ? "" : "s");
    if (r->failed_cells > 0) {
        print_out("; %lld cells failed", (long long)r->failed_cells);
    }
    print_out("\n");
}

static int report(const char *results)
{
    grail_report r = {0};
    const grail_report_files files = {
        .html_path = output,
        .tsv_directory = tsv_directory,
        .svg_directory = svg_directory,
    };
    const grail_status status = grail_report_write(results, &files, &r);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    if (r.cut_line > 0 && !quiet) {
        print_error("grail: warning: line %zu, the last of '%s', is incomplete and was ignored\n",
                    r.cut_line, results);
    }
    if (!quiet) {
        print_summary(&r);
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    const char *results = NULL;
    bool help = false;
    const int code = options_parse(&command_report, table, argc, argv, &results, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    return report(results);
}

static const char *const examples[] = {
    "grail report sweep.jsonl -o report.html",
    "grail report sweep.jsonl -o report.html --tsv figures --svg figures",
    NULL,
};

const command command_report = {
    .name = "report",
    .arguments = "RESULTS",
    .positional_count = 1,
    .summary = "draw the results of a sweep as an HTML page",
    .details = "RESULTS is the file of JSON lines that grail sweep writes; the sweep may still be "
               "running. The page is one file: it holds the results, draws them in the browser and "
               "loads nothing from the network.",
    .examples = examples,
    .run = run,
};
