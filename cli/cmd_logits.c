/* grail logits: writes the logits for token ids or pixels, to compare them with those of another
 * implementation. */
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

static const char *pixels, *output;

static const option table[] = {
    {GROUP_INPUT, "ids", OPTION_TEXT, &asked.text.path, "FILE", NULL,
     .help = "token ids [n, T], a .npy file", .need = ONE_REQUIRED, .field = "path"},
    {GROUP_INPUT, "pixels", OPTION_TEXT, &pixels, "FILE", NULL,
     .help = "safetensors file with a tensor \"pixels\", F32 [n, height, width, 3]",
     .need = ONE_REQUIRED},
    SET_OPTION,
    {GROUP_INPUT, "context", OPTION_INTEGER, &asked.text.context, "N", NULL,
     .help = "tokens per window (T)", .only_with = "ids"},
    {GROUP_OUTPUT, "output", OPTION_TEXT, &output, "FILE", NULL,
     .help = "safetensors file to write; short form: -o", .need = REQUIRED},
    PRECISION_OPTION("f32"),
    BACKEND_OPTION,
    QUIET_OPTION,
    {0},
};

static int run(const char *const arguments[])
{
    grail_model *model = NULL;
    if ((asked.text.path == NULL) == (pixels == NULL)) {
        print_command_error("give either --ids FILE or --pixels FILE");
        return EXIT_USAGE;
    }
    grail_status status = shared_options_open_model(arguments[0], &model);
    if (status == GRAIL_OK) {
        print_while("computing logits");
        status = pixels != NULL ? grail_pixel_logits_write(model, pixels, &asked.compute, output)
                                : grail_logits_write(model, &asked.text, &asked.compute, output);
    }
    print_while(NULL);
    const int code = status == GRAIL_OK ? EXIT_OK : print_failure(status);
    if (code == EXIT_OK) {
        print_notices(arguments[0], model, false);
    }
    grail_model_close(model);
    return code;
}

const command command_logits = {
    .name = "logits",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "write the logits of a model for given token ids or pixels",
    .options = table,
    .run = run,
    .hidden = true,
};
