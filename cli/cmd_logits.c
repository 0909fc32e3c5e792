/* grail logits: raw logits, for comparison with another implementation. */
#include "commands.h"
#include "print.h"

#include <grail/grail.h>

static grail_text_source source;
static const char *output, *backend = "cpu";

static const option table[] = {
    {"ids", OPTION_TEXT, &source.path, "FILE", NULL, "token ids [n, T] as .npy"},
    {"context", OPTION_INTEGER, &source.context, "N", NULL, "T"},
    {"output", OPTION_TEXT, &output, "FILE", NULL, "safetensors file to write (-o)"},
    {"backend", OPTION_TEXT, &backend, "NAME", "cpu ref", "cpu, or ref (slow, f64) (cpu)"},
    {0},
};
const option *const logits_options = table;

static int run(int argc, char **argv)
{
    const char *directory = NULL;
    bool help = false;
    grail_model *model = NULL;
    int code = options_parse(&command_logits, table, argc, argv, &directory, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    if (source.path == NULL || output == NULL) {
        fprintf(stderr, "grail logits: give --ids FILE and -o FILE\n");
        return EXIT_USAGE;
    }
    grail_status status = grail_model_open(directory, &model);
    if (status == GRAIL_OK) {
        status = grail_logits_write(model, &source, backend, output);
    }
    code = status == GRAIL_OK ? EXIT_OK : print_failure(status);
    grail_model_close(model);
    return code;
}

const command command_logits = {
    .name = "logits",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write a model's logits for given token ids",
    .run = run,
    .hidden = true,
};
