/* What timm's config.json says of its class VisionTransformer and the tensors do not: "model_args",
 * or else the name of the "architecture". Source: timm 1.0.31, models/vision_transformer.py. */
#include "arch/activation_names.h"
#include "arch/tower_complete.h"

#include <string.h>

enum { MOST_HEADS = 1 << 16 };

/* Architectures whose heads are not 64 wide. */
static const struct {
    const char *begin;
    int heads;
} odd_heads[] = {{"vit_huge_", 16}, {"vit_giant_", 16}, {"vit_gigantic_", 16}, {"test_vit", 2}};

static int64_t usual_heads(const char *class)
{
    for (size_t i = 0; i < sizeof odd_heads / sizeof odd_heads[0]; i++) {
        if (strncmp(class, odd_heads[i].begin, strlen(odd_heads[i].begin)) == 0) {
            return odd_heads[i].heads;
        }
    }
    return 0;
}

static grail_status complete_heads(const char *source, const json_t *arguments, const char *class,
                                   json_t *config)
{
    int64_t heads = 0;
    CHECK(json_get_integer(source, arguments, "num_heads", usual_heads(class), &heads));
    if (heads < 0 || heads > MOST_HEADS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"num_heads\" is %lld, expected 1 to %d", source,
                         (long long)heads, MOST_HEADS);
    }
    if (heads > 0) {
        CHECK(json_put(config, "num_attention_heads", json_integer(heads)));
    }
    return GRAIL_OK;
}

static grail_status complete_activation(const char *source, const json_t *arguments,
                                        const char *class, json_t *config)
{
    activation_kind kind =
        strstr(class, "quickgelu") == NULL ? ACTIVATION_GELU : ACTIVATION_QUICK_GELU;
    const char *name = json_string_value(json_object_get(arguments, "act_layer"));
    if (name != NULL && strcmp(name, "gelu_tanh") == 0) { /* timm's own name */
        kind = ACTIVATION_GELU_TANH;
    } else {
        CHECK(read_activation(source, arguments, "act_layer", kind, &kind));
    }
    return json_put(config, "activation", json_text(activation_name(kind)));
}

/* Its CLIP towers have the norms of torch. */
static grail_status complete_epsilon(const char *class, json_t *config)
{
    return json_put(config, "layer_norm_eps",
                    json_real(strstr(class, "_clip_") == NULL ? 1e-6 : 1e-5));
}

/* grail classifies the class token, as timm does unless it is told otherwise. */
static grail_status check_pool(const char *source, const json_t *document, const json_t *arguments)
{
    const char *pool = NULL;
    CHECK(json_get_string(source, document, "global_pool", "token", &pool));
    CHECK(json_get_string(source, arguments, "global_pool", pool, &pool));
    if (pool[0] != 0 && strcmp(pool, "token") != 0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: \"global_pool\" is \"%s\"; grail has vision transformers that classify the class "
            "token (\"token\")",
            source, pool);
    }
    return GRAIL_OK;
}

grail_status vit_complete(const surroundings *around, json_t *config, char *notice)
{
    const char *source = around->source;
    const char *names = json_string_value(json_object_get(config, "names"));
    const char *class = json_string_value(json_object_get(around->config, "architecture"));
    const json_t *arguments = json_object_get(around->config, "model_args");
    (void)notice;
    if (class == NULL || names == NULL || strcmp(names, "timm") != 0) {
        return GRAIL_OK;
    }
    if (arguments != NULL && !json_is_null(arguments) && !json_is_object(arguments)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"model_args\" is not an object", source);
    }
    CHECK(check_pool(source, around->config, arguments));
    CHECK(complete_heads(source, arguments, class, config));
    CHECK(complete_epsilon(class, config));
    return complete_activation(source, arguments, class, config);
}
