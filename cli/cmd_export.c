/* grail export: writes a network that reads images as an ONNX file. */
#include "commands.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

static const char *output;
static option_list settings;
static grail_onnx_options chosen;
static bool as_json;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &output, "FILE", NULL,
     .help = "ONNX file to write; must not exist; short form: -o", .need = REQUIRED},
    {GROUP_OUTPUT, "side", OPTION_INTEGER, &chosen.side, "N", NULL,
     .help = "side of the input images in pixels (the network's, or its preset's)"},
    {GROUP_OUTPUT, "largest", OPTION_SIZE, &chosen.largest, "BYTES", NULL,
     .help = "largest size of FILE; if it would be larger, the weights go into FILE.data (2 GB)"},
    SET_OPTION(settings),
    JSON_OPTION(as_json),
    {0},
};
const option *const export_options = table;

static int print_facts(const grail_onnx_facts *facts)
{
    char bytes[HUMAN_SIZE];
    if (as_json) {
        return print_json(json_pack("{s:o, s:I, s:I, s:I, s:b, s:b}", "file", json_text(output),
                                    "side", (json_int_t)facts->side, "outputs",
                                    (json_int_t)facts->outputs, "bytes", (json_int_t)facts->bytes,
                                    "split", facts->split, "converted", facts->converted));
    }
    print_out("%s: %s%s%s, opset 17\n", output, human_bytes((double)facts->bytes, bytes),
              facts->split ? " with its weights in " : "", facts->split ? "the .data file" : "");
    print_out("  pixels  F32 [N, 3, %lld, %lld]\n  logits  F32 [N, %lld]\n", (long long)facts->side,
              (long long)facts->side, (long long)facts->outputs);
    if (facts->converted) {
        print_out("  16-bit weights were converted to F32\n");
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool help = false;
    grail_model *model = NULL;
    grail_onnx_facts facts = {0};
    int code = options_parse(&command_export, table, argc, argv, &path, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    const grail_model_options options = {.settings = settings.values,
                                         .setting_count = settings.count};
    grail_status status = grail_model_open_with(path, &options, &model);
    if (status == GRAIL_OK) {
        status = grail_onnx_write(model, output, &chosen, &facts);
    }
    if (status == GRAIL_OK) {
        print_notices(path, model, false);
    }
    code = status == GRAIL_OK ? print_facts(&facts) : print_failure(status);
    grail_model_close(model);
    return code;
}

static const char *const examples[] = {
    "grail export demo/vision/cnn.pth -o cnn.onnx",
    NULL,
};

const command command_export = {
    .name = "export",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write an image network as an ONNX file",
    .details =
        "MODEL is a dense or a narrowed network: a directory, or a file of weights. The ONNX file "
        "has opset 17, an input \"pixels\" and an output \"logits\"; ONNX Runtime opens it.",
    .examples = examples,
    .run = run,
};
