#include "arch/refusals.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

extern const unsigned char refusals_json[];
extern const unsigned long refusals_json_size;

json_t *refusals_read(void)
{
    return json_loadb((const char *)refusals_json, refusals_json_size, JSON_REJECT_DUPLICATES,
                      NULL);
}

/* -- families ---------------------------------------------------------------------------------- */

void unknown_family_explain(const char *type, const json_t *config)
{
    json_t *refusals = refusals_read();
    const json_t *family = json_object_get(json_object_get(refusals, "families"), type);
    const char *nearest = json_string_value(json_array_get(family, 0));
    const char *reason = json_string_value(json_array_get(family, 1));
    const bool is_pair = json_is_true(json_object_get(config, "is_encoder_decoder"));
    const char *key = NULL;
    json_t *shown = NULL;
    if (family != NULL && nearest == NULL) {
        error_append("; none is near: %s %s", type, reason);
    } else if (family != NULL) {
        error_append("; the nearest is %s, but %s %s", nearest, type, reason);
    } else if (is_pair) {
        error_append("; \"is_encoder_decoder\" shows that it has an encoder and a decoder");
    }
    json_object_foreach (json_object_get(refusals, "keys"), key, shown) {
        const json_t *value = json_object_get(config, key); /* which may switch it off */
        if (family == NULL && !is_pair &&
            (json_is_true(value) || json_is_object(value) ||
             (json_is_integer(value) && json_integer_value(value) > 1) ||
             (json_is_real(value) && json_real_value(value) != 1.0))) {
            error_append("; \"%s\" shows that %s", key, json_string_value(shown));
            break;
        }
    }
    json_decref(refusals);
}

/* -- parts of image networks ------------------------------------------------------------------- */

enum { MOST_TENSORS = 1 << 13 }; /* of published image networks; a search takes their square */

/* Whether these are complete components of a name, one after another. */
static bool name_has_parts(const char *name, const char *parts)
{
    const size_t length = strlen(parts);
    while (name != NULL) {
        if (strncmp(name, parts, length) == 0 && (name[length] == '.' || name[length] == 0)) {
            return true;
        }
        name = strchr(name, '.');
        name = name == NULL ? NULL : name + 1;
    }
    return false;
}

/* What the first part says of whose components a tensor is named; NULL: there is none. What sets a
 * network apart comes before what it shares with others. */
static const char *find_named(json_t *parts, const checkpoint *weights, const char **tensor)
{
    const char *part = NULL;
    json_t *what = NULL;
    json_object_foreach (parts, part, what) {
        for (int64_t i = 0; i < checkpoint_count(weights); i++) {
            *tensor = checkpoint_plain_name(weights, i);
            if (name_has_parts(*tensor, part)) {
                return json_string_value(what);
            }
        }
    }
    return NULL;
}

static bool is_convolution(const tensor_view *t)
{
    return t->rank == 4 && t->shape[2] == t->shape[3];
}

/* Several convolutions that read one channel each; a single one may read grey images. */
static const tensor_view *find_depthwise(const checkpoint *weights)
{
    const tensor_view *found = NULL;
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const tensor_view *t = checkpoint_at(weights, i);
        if (is_convolution(t) && t->shape[0] > 1 && t->shape[1] == 1 && t->shape[2] > 1) {
            if (found != NULL) {
                return found;
            }
            found = t;
        }
    }
    return NULL;
}

/* Length of a name up to the component that has the convolution's place in its block:
 * "layer1.0.conv2.weight" and "layer1.0.conv2.conv.weight" -> "layer1.0.". A component may only
 * tell a convolution from its norm: "b.0" is the convolution of "b", and "conv1.conv" that of
 * "conv1". */
static size_t block_length(const char *name)
{
    const char *end = strrchr(name, '.');
    bool inner = true;
    for (int step = 0; step < 2 && inner && end != NULL; step++) {
        const char *begin = end;
        while (begin > name && begin[-1] != '.') {
            begin--;
        }
        const size_t length = (size_t)(end - begin);
        inner = begin > name && (strspn(begin, "0123456789") == length ||
                                 (length == strlen("conv") && strncmp(begin, "conv", length) == 0));
        end = inner ? begin - 1 : begin;
    }
    return end == NULL ? 0 : (size_t)(end - name);
}

/* Whether the same block has a 1 x 1 convolution of that size in that dimension. */
static bool has_pointwise(const checkpoint *weights, const tensor_view *t, int dimension,
                          int64_t size)
{
    const size_t length = block_length(t->name);
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const tensor_view *other = checkpoint_at(weights, i);
        if (is_convolution(other) && other->shape[2] == 1 && other->shape[dimension] == size &&
            block_length(other->name) == length && strncmp(other->name, t->name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* A convolution between two of 1 x 1 that reads a part of the channels that the first one writes.
 */
static const tensor_view *find_grouped(const checkpoint *weights)
{
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const tensor_view *t = checkpoint_at(weights, i);
        const bool divides = is_convolution(t) && t->shape[2] > 1 && t->shape[1] > 1 &&
                             t->shape[1] < t->shape[0] && t->shape[0] % t->shape[1] == 0;
        if (divides && has_pointwise(weights, t, 0, t->shape[0]) &&
            has_pointwise(weights, t, 1, t->shape[0]) &&
            !has_pointwise(weights, t, 0, t->shape[1])) {
            return t;
        }
    }
    return NULL;
}

static grail_status refuse(const checkpoint *weights, const char *tensor, const char *what)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: tensor '%s' %s; the known families of image networks lack that: plain "
                     "residual networks (resnet), transformers with norms before attention and FFN "
                     "(vit), visual towers of clip",
                     checkpoint_path(weights), tensor, what);
}

/* A norm called as in a ResNet where no norm has running statistics. */
static const char *find_other_norm(const checkpoint *weights)
{
    const char *found = NULL;
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const char *name = checkpoint_plain_name(weights, i);
        if (strstr(name, "running_mean") != NULL) {
            return NULL;
        }
        found = strcmp(name, "bn1.weight") == 0 ? name : found;
    }
    return found;
}

grail_status foreign_parts_explain(const checkpoint *weights, grail_status status)
{
    bool has_images = false;
    for (int64_t i = 0; i < checkpoint_count(weights) && !has_images; i++) {
        has_images = is_convolution(checkpoint_at(weights, i));
    }
    if (checkpoint_count(weights) > MOST_TENSORS || !has_images) {
        return status;
    }
    json_t *refusals = refusals_read();
    const char *name = NULL;
    const char *what = find_named(json_object_get(refusals, "parts"), weights, &name);
    const tensor_view *depthwise = find_depthwise(weights);
    const tensor_view *grouped = find_grouped(weights);
    const char *norm = find_other_norm(weights);
    if (what != NULL) {
        status = refuse(weights, name, what);
    } else if (depthwise != NULL) {
        status = refuse(weights, depthwise->name, "is a depthwise convolution");
    } else if (grouped != NULL) {
        char text[96];
        snprintf(text, sizeof text, "reads %lld of %lld channels: it is a grouped convolution",
                 (long long)grouped->shape[1], (long long)grouped->shape[0]);
        status = refuse(weights, grouped->name, text);
    } else if (norm != NULL) {
        status = refuse(weights, norm, "is of a norm without running statistics (not BatchNorm)");
    }
    json_decref(refusals);
    return status;
}

/* -- weights that cannot be narrowed as they are stored ---------------------------------------- */

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

static const struct {
    const char *part; /* a component of its name */
    const char *form; /* NULL: of an adapter */
} forms[] = {
    {"qweight", "GPTQ or AWQ"},
    {"qzeros", "GPTQ or AWQ"},
    {"absmax", "bitsandbytes"},
    {"quant_map", "bitsandbytes"},
    {"quant_state", "bitsandbytes"},
    {"SCB", "bitsandbytes"},
    {"weight_scale", "FP8 or compressed-tensors"},
    {"weight_scale_inv", "FP8"},
    {"weight_packed", "compressed-tensors"},
    {"weight_zero_point", "compressed-tensors"},
    {"W_q", "HQQ"},
    {"_packed_params", "torch.ao"},
    {"lora_A", NULL},
    {"lora_B", NULL},
};

grail_status refuse_stored_form(const checkpoint *weights)
{
    const char *path = checkpoint_path(weights);
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        const char *name = checkpoint_plain_name(weights, i);
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            if (name_has_parts(name, forms[f].part) && forms[f].form == NULL) {
                return error_set(
                    GRAIL_ERROR_UNSUPPORTED,
                    "%s: tensor '%s' belongs to a LoRA adapter, which is not a "
                    "network; merge it into its base model (merge_and_unload of PEFT), "
                    "and give the result",
                    path, name);
            }
            if (name_has_parts(name, forms[f].part)) {
                return error_set(GRAIL_ERROR_UNSUPPORTED,
                                 "%s: tensor '%s' shows weights quantised by %s, but only plain "
                                 "weights can be narrowed; " REMEDY,
                                 path, name, forms[f].form);
            }
        }
    }
    return GRAIL_OK;
}
