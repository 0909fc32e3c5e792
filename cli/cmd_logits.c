/* grail logits: writes the logits for token ids or pixels, to compare them with those of another
 * implementation. */
#include "commands.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

static grail_text_source source;
static const char *pixels, *output;
static grail_compute compute = {.backend = "cpu"};
static option_list settings;
static bool quiet;

static const option table[] = {
    {GROUP_INPUT, "ids", OPTION_TEXT, &source.path, "FILE", NULL,
     .help = "token ids [n, T], a .npy file", .need = ONE_REQUIRED, .field = "path"},
    {GROUP_INPUT, "pixels", OPTION_TEXT, &pixels, "FILE", NULL,
     .help = "safetensors file with a tensor \"pixels\", F32 [n, height, width, 3]",
     .need = ONE_REQUIRED},
    SET_OPTION(settings),
    {GROUP_INPUT, "context", OPTION_INTEGER, &source.context, "N", NULL,
     .help = "tokens per window (T)", .only_with = "ids"},
    {GROUP_OUTPUT, "output", OPTION_TEXT, &output, "FILE", NULL,
     .help = "safetensors file to write; short form: -o", .need = REQUIRED},
    PRECISION_OPTION(compute.precision, "f32"),
    BACKEND_OPTION(compute.backend),
    QUIET_OPTION(quiet),
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
    if ((source.path == NULL) == (pixels == NULL)) {
        print_error("grail logits: give either --ids FILE or --pixels FILE\n");
        return EXIT_USAGE;
    }
    const grail_model_options options = {.settings = settings.values,
                                         .setting_count = settings.count};
    grail_status status = grail_model_open_with(directory, &options, &model);
    if (status == GRAIL_OK) {
        print_while(quiet ? NULL : "computing logits");
        status = pixels != NULL ? grail_pixel_logits_write(model, pixels, &compute, output)
                                : grail_logits_write(model, &source, &compute, output);
    }
    print_while(NULL);
    code = status == GRAIL_OK ? EXIT_OK : print_failure(status);
    if (code == EXIT_OK) {
        print_notices(directory, model, false);
    }
    grail_model_close(model);
    return code;
}

const command command_logits = {
    .name = "logits",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write the logits of a model for given token ids or pixels",
    .run = run,
    .hidden = true,
};
