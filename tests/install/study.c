/* A program that uses both libraries: an error of one is read through the other. */
#include <grail-study/report.h>
#include <grail-study/sweep.h>
#include <grail/machine.h>
#include <grail/model.h>

#include <stdio.h>
#include <string.h>

static int refused(const char *call, grail_status status, const char *expected)
{
    if (status == GRAIL_OK || strstr(grail_error_message(), expected) == NULL) {
        fprintf(stderr, "%s: '%s', expected '%s'\n", call, grail_error_message(), expected);
        return 0;
    }
    return 1;
}

int main(void)
{
    grail_sweep_options options;
    const grail_report_files files = {.html_path = "p.html"};
    grail_model *model = NULL;
    grail_sweep_options_init(&options);
    options.recipe = "no-recipe.json";
    options.results = "results.jsonl";
    const int ok =
        refused("sweep", grail_sweep_run(&options, NULL), "no-recipe.json") &&
        refused("open", grail_model_open("no-model", &model), "no-model") &&
        refused("report", grail_report_write("no-results.jsonl", &files, NULL), "no-results.jsonl");
    printf("grail %s\n", grail_version());
    return ok ? 0 : 1;
}
