/* Sources of the keys and names: the quantisers of Hugging Face transformers 5.23, bitsandbytes,
 * GPTQ, AWQ, compressed-tensors, HQQ, torch.ao and PEFT. */
#include "arch/stored_form.h"

#include <string.h>

#define REMEDY                                                                                     \
    "give the checkpoint from before quantisation (F32, F16 or BF16), and quantise what grail "    \
    "writes"

enum { PLAIN_BITS = 16 };

/* A list of switches that are all off, a list of groups that is empty, or 16 bits and more. */
static bool quantises_nothing(const json_t *stated)
{
    const json_t *eight = json_object_get(stated, "load_in_8bit");
    const json_t *four = json_object_get(stated, "load_in_4bit");
    const json_t *groups = json_object_get(stated, "config_groups");
    const json_t *bits = json_object_get(stated, "bits");
    return json_is_null(stated) || (json_is_object(stated) && json_object_size(stated) == 0) ||
           (json_is_false(eight) && json_is_false(four)) ||
           (json_is_object(groups) && json_object_size(groups) == 0) ||
           (json_is_integer(bits) && json_integer_value(bits) >= PLAIN_BITS);
}

/* Its weights are read (format/weights/packed_groups.h); activations are left as they are. */
static bool is_packed(const json_t *stated)
{
    const char *method = json_string_value(json_object_get(stated, "quant_method"));
    const char *format = json_string_value(json_object_get(stated, "format"));
    const json_t *cache = json_object_get(stated, "kv_cache_scheme");
    const char *name = NULL;
    json_t *group = NULL;
    bool plain = method != NULL && strcmp(method, "compressed-tensors") == 0 && format != NULL &&
                 strcmp(format, "pack-quantized") == 0 && (cache == NULL || json_is_null(cache));
    json_object_foreach (json_object_get(stated, "config_groups"), name, group) {
        const json_t *inputs = json_object_get(group, "input_activations");
        const json_t *outputs = json_object_get(group, "output_activations");
        plain = plain && (inputs == NULL || json_is_null(inputs)) &&
                (outputs == NULL || json_is_null(outputs));
    }
    return plain;
}

grail_status read_quantisation(const char *source, json_t *config)
{
    static const char key[] = "quantization_config";
    const json_t *stated = json_object_get(config, key);
    if (stated == NULL || quantises_nothing(stated)) {
        return GRAIL_OK;
    }
    const char *method = json_string_value(json_object_get(stated, "quant_method"));
    if (is_packed(stated) || (method != NULL && strcmp(method, "mxfp4") == 0)) {
        json_object_del(config, key);
        return GRAIL_OK;
    }
    const json_t *bits = json_object_get(stated, "bits");
    const grail_status status = error_set(GRAIL_ERROR_UNSUPPORTED,
                                          "%s: \"quantization_config\" says that its weights are "
                                          "quantised",
                                          source);
    if (method != NULL) {
        error_append(" (%s", method);
        if (json_is_integer(bits)) {
            error_append(", %lld bits", (long long)json_integer_value(bits));
        }
        error_append(")");
    }
    error_append(", but only plain weights can be narrowed; " REMEDY);
    return status;
}

typedef struct stored_form {
    const char *part; /* a component of its name */
    const char *form;
    bool is_adapter;
} stored_form;

static const stored_form forms[] = {
    {"qweight", "GPTQ or AWQ", false},
    {"qzeros", "GPTQ or AWQ", false},
    {"absmax", "bitsandbytes", false},
    {"quant_map", "bitsandbytes", false},
    {"quant_state", "bitsandbytes", false},
    {"SCB", "bitsandbytes", false},
    {"weight_scale", "FP8 or compressed-tensors", false},
    {"weight_scale_inv", "FP8", false},
    {"weight_packed", "compressed-tensors", false},
    {"weight_zero_point", "compressed-tensors", false},
    {"W_q", "HQQ", false},
    {"_packed_params", "torch.ao", false},
    {"lora_A", "", true},
    {"lora_B", "", true},
};

static bool has_component(const char *name, const char *part)
{
    const size_t length = strlen(part);
    while (name != NULL) {
        if (strncmp(name, part, length) == 0 && (name[length] == '.' || name[length] == 0)) {
            return true;
        }
        name = strchr(name, '.');
        name = name == NULL ? NULL : name + 1;
    }
    return false;
}

static grail_status refuse(const checkpoint *weights, const char *tensor, const stored_form *f)
{
    if (f->is_adapter) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: tensor '%s' belongs to a LoRA adapter, which is not a network; merge "
                         "it into its base model (merge_and_unload of PEFT), and give the result",
                         checkpoint_path(weights), tensor);
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: tensor '%s' shows weights quantised by %s, but only plain weights can be "
                     "narrowed; " REMEDY,
                     checkpoint_path(weights), tensor, f->form);
}

grail_status refuse_stored_form(const checkpoint *weights)
{
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const char *name = checkpoint_plain_name(weights, i);
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            if (has_component(name, forms[f].part)) {
                return refuse(weights, name, &forms[f]);
            }
        }
    }
    return GRAIL_OK;
}
