/* grail export: writes a network that reads images as an ONNX file, a language model as a GGUF
 * file. */
#include "gguf_facts.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <string.h>

static const char *output;
static const char *target, *type, *table_type;
static grail_onnx_options chosen;

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
    SET_OPTION,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static int print_facts(const grail_onnx_facts *facts)
{
    char bytes[HUMAN_SIZE];
    if (asked.as_json) {
        return print_json(json_of("file", J(output), "side", J(facts->side), "outputs",
                                  J(facts->outputs), "bytes", J(facts->bytes), "split",
                                  J((bool)facts->split), "converted", J((bool)facts->converted),
                                  NULL));
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
    print_notices(path, model, false);
    return print_gguf_facts(output, &facts, notices_json(model, false, NULL, NULL));
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

static int run(const char *const arguments[])
{
    int code = EXIT_OK;
    grail_model *model = NULL;
    const grail_status status = shared_options_open_model(arguments[0], &model);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    print_while("writing the file");
    if (target == NULL ? is_text(model) : strcmp(target, "gguf") == 0) {
        code = write_gguf(arguments[0], model);
    } else {
        code = write_onnx(arguments[0], model);
    }
    grail_model_close(model);
    return code;
}

const command command_export = {
    .name = "export",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "write an image network as ONNX, a language model as GGUF",
    .details =
        "MODEL is a dense or a narrowed network: a directory, or a file of weights. The ONNX file "
        "has opset 17, an input \"pixels\" and an output \"logits\"; ONNX Runtime opens it. A GGUF "
        "file holds the weights, the configuration and the tokenizer.",
    .examples = WORDS("grail export demo/vision/cnn.pth -o cnn.onnx",
                      "grail export demo/model -o model.gguf --type q4_0"),
    .options = table,
    .run = run,
};
