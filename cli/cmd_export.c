/* grail export: writes a network that reads images as an ONNX file, a language model as a GGUF
 * file. */
#include "commands.h"
#include "gguf_facts.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <string.h>

static const char *output;
static option_list settings;
static const char *target, *type, *table_type;
static grail_onnx_options chosen;
static bool as_json, quiet;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &output, "FILE", NULL,
     .help = "file to write; must not exist; short form: -o", .need = REQUIRED},
    {GROUP_OUTPUT, "to", OPTION_WORD, &target, "FORMAT", WORDS("onnx", "gguf"),
     .help = "format: onnx or gguf (gguf for language models, onnx for others)"},
    {GROUP_OUTPUT, "type", OPTION_WORD, &type, "TYPE",
     WORDS("f32", "f16", "bf16", "q8_0", "q6_k", "q5_0", "q4_0", "q4_k"),
     .help = "type of the matrices of a GGUF file: f32, f16, bf16, q8_0, q6_k, q5_0, q4_0 or q4_k "
             "(as they are stored)",
     .field = "type"},
    TABLE_TYPE_OPTION(table_type),
    FIELDS_OF(GROUP_OUTPUT, grail_onnx_option_at, GRAIL_SUBJECT_OUTPUT, chosen),
    SET_OPTION(settings),
    QUIET_OPTION(quiet),
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
        print_out("  weights were converted to F32\n");
    }
    return EXIT_OK;
}

static int write_gguf(const char *path, const grail_model *model)
{
    grail_gguf_facts facts = {0};
    const grail_gguf_options options = {.type = type, .table_type = table_type};
    const grail_status status = grail_gguf_write(model, output, &options, &facts);
    print_while(NULL);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    model_notices found;
    find_notices(model, false, &found);
    print_notices(path, model, false);
    return print_gguf_facts(output, &facts, notices_json(&found, NULL), as_json);
}

static int write_onnx(const char *path, const grail_model *model)
{
    grail_onnx_facts facts = {0};
    const grail_status status = grail_onnx_write(model, output, &chosen, &facts);
    print_while(NULL);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    print_notices(path, model, false);
    return print_facts(&facts);
}

static bool is_text(const grail_model *model)
{
    grail_model_facts facts = {0};
    return grail_model_describe(model, &facts) == GRAIL_OK && facts.reads_images == 0;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool help = false;
    grail_model *model = NULL;
    int code = options_parse(&command_export, table, argc, argv, &path, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    const grail_model_options options = {.settings = settings.values,
                                         .setting_count = settings.count};
    const grail_status status = grail_model_open_with(path, &options, &model);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    print_while(quiet ? NULL : "writing the file");
    if (target == NULL ? is_text(model) : strcmp(target, "gguf") == 0) {
        code = write_gguf(path, model);
    } else {
        code = write_onnx(path, model);
    }
    grail_model_close(model);
    return code;
}

static const char *const examples[] = {
    "grail export demo/vision/cnn.pth -o cnn.onnx",
    "grail export demo/model -o model.gguf --type q4_0",
    NULL,
};

const command command_export = {
    .name = "export",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write an image network as ONNX, a language model as GGUF",
    .details =
        "MODEL is a dense or a narrowed network: a directory, or a file of weights. The ONNX file "
        "has opset 17, an input \"pixels\" and an output \"logits\"; ONNX Runtime opens it. A GGUF "
        "file holds the weights, the configuration and the tokenizer.",
    .examples = examples,
    .run = run,
};
