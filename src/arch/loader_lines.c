#include "arch/loader_lines.h"

#include "arch/model_config.h"
#include "format/weights/checkpoint_locate.h"
#include "format/weights/weights_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void remark(loader_verdict *v, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->reason, sizeof v->reason, format, arguments);
    va_end(arguments);
}

void refuse(loader_verdict *v, const char *format, ...)
{
    va_list arguments;
    v->loads = false;
    v->lines[0] = 0;
    va_start(arguments, format);
    vsnprintf(v->reason, sizeof v->reason, format, arguments);
    va_end(arguments);
}

static void set_lines(loader_verdict *v, const char *format, ...) GRAIL_PRINTF(2, 3);

/* Lines that do not fit would not work, so there are none then. */
static void set_lines(loader_verdict *v, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(v->lines, sizeof v->lines, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof v->lines) {
        v->lines[0] = 0;
    }
}

/* Whether a text means itself in a string of Python and as a name of a class. */
static bool is_plain(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+=@ ";
    return text[0] != 0 && text[strspn(text, allowed)] == 0;
}

void loader_lines_pretrained(const char *class_name, bool trusts, loader_verdict *v)
{
    v->reads_names = true;
    set_lines(v, "import transformers\nmodel = transformers.%s.from_pretrained(\"DIR\"%s)\n",
              class_name, trusts ? ", trust_remote_code=True" : "");
}

void loader_lines_saved_class(const json_t *config, loader_verdict *v)
{
    const json_t *saved_by = json_array_get(json_object_get(config, "architectures"), 0);
    const char *name = json_string_value(saved_by);
    if (name != NULL && is_plain(name) && name[0] >= 'A' && name[0] <= 'Z' &&
        strpbrk(name, ".-+=@ ") == NULL) {
        loader_lines_pretrained(name, false, v);
    }
}

void loader_lines_timm_directory(loader_verdict *v)
{
    v->reads_names = true;
    set_lines(v, "import timm\nmodel = timm.create_model(\"local-dir:DIR\", pretrained=True)\n");
}

void loader_lines_build(const char *module, const char *build, loader_verdict *v)
{
    v->lines_need_tensors = true;
    set_lines(v, "import %s\nmodel = %s\nmodel.load_state_dict(tensors)\n", module, build);
}

void loader_lines_open_clip(const char *mlp_ratio, loader_verdict *v)
{
    v->lines_need_tensors = true;
    set_lines(v,
              "import json\nimport open_clip\n"
              "with open(\"DIR/" OPEN_CLIP_CONFIG_NAME "\") as file:\n"
              "    arguments = json.load(file)[\"model_cfg\"]\n"
              "arguments[\"vision_cfg\"][\"mlp_ratio\"] = %s\n"
              "model = open_clip.CLIP(**arguments)\nmodel.load_state_dict(tensors)\n",
              mlp_ratio);
}

/* Gives the tensors the names that their class has, where they have others: some are wrapped in
 * modules whose names checkpoint_plain_name removes. */
void loader_lines_tensors(const checkpoint *weights, loader_verdict *v)
{
    const char *file = checkpoint_file_name(weights, 0);
    const char *wrapper = checkpoint_wrapper(weights, 0);
    const char *prefix = checkpoint_prefix(weights);
    const bool torch = checkpoint_format(weights) == &weights_format_torch;
    const bool renamed = torch && !checkpoint_is_torch_name(file);
    char strip[LOADER_LINES_SIZE] = "";
    bool wrapped = false;
    if (checkpoint_file_count(weights) != 1 || renamed || !is_plain(file) ||
        (wrapper[0] != 0 && !is_plain(wrapper)) || (prefix[0] != 0 && !is_plain(prefix))) {
        return;
    }
    for (int64_t i = 0; i < checkpoint_count(weights) && !wrapped; i++) {
        wrapped = strcmp(checkpoint_plain_name(weights, i), checkpoint_at(weights, i)->name) != 0;
    }
    if (prefix[0] != 0) {
        snprintf(strip, sizeof strip,
                 "tensors = {name.removeprefix(\"%s\"): tensor for name, tensor in "
                 "tensors.items()}\n",
                 prefix);
    }
    if (checkpoint_onnx(weights) != NULL) {
        set_lines(v, "import onnx\nmodel = onnx.load(\"DIR/%s\")\n", file);
        return;
    }
    const char *module = torch ? "torch" : "safetensors.torch";
    set_lines(v, "import %s\ntensors = %s.%s(\"DIR/%s\"%s)%s%s%s\n%s%s", module, module,
              torch ? "load" : "load_file", file,
              torch ? ", map_location=\"cpu\", weights_only=True" : "",
              wrapper[0] == 0 ? "" : "[\"", wrapper, wrapper[0] == 0 ? "" : "\"]",
              wrapped ? "import re\ntensors = {re.sub(r\"(?<![^.])(module|_orig_mod|_module|"
                        "_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\\."
                        "\", \"\", name): tensor for name, tensor in tensors.items()}\n"
                      : "",
              strip);
}

void loader_lines_complete(const loader_verdict *weights, loader_verdict *v)
{
    char own[LOADER_LINES_SIZE];
    if (v->lines_need_tensors && v->lines[0] != 0) {
        memcpy(own, v->lines, sizeof own);
        v->lines[0] = 0;
        if (weights->lines[0] != 0) {
            set_lines(v, "%s%s", weights->lines, own);
        }
    }
}

void judge_foreign_names(const char *prefix, loader_verdict *verdicts)
{
    for (int i = 0; i < LOADER_COUNT; i++) {
        if (verdicts[i].loads && verdicts[i].reads_names) {
            refuse(&verdicts[i],
                   "its class does not know tensors whose names begin with '%.80s'; save that "
                   "network by itself",
                   prefix);
        }
    }
}

/* -- timm's config.json ------------------------------------------------------------------------ */

bool timm_config_is(const json_t *config)
{
    return json_is_string(json_object_get(config, "architecture"));
}

grail_status timm_config_set_argument(json_t *config, const char *name, json_t *value)
{
    json_t *arguments = json_object_get(config, "model_args");
    if (!json_is_object(arguments)) {
        arguments = json_object();
        const grail_status status = json_put(config, "model_args", arguments);
        if (status != GRAIL_OK) {
            json_decref(value);
            return status;
        }
    }
    return json_put(arguments, name, value);
}
