/* The families, and the choice of a family for a configuration or a checkpoint. */
#include "arch/architecture.h"
#include "arch/loader_lines.h"
#include "arch/network_prefix.h"
#include "arch/refusals.h"
#include "base/names.h"

#include "format/weights/weights_format.h"

#include <grail/model.h>

#include <stdio.h>
#include <string.h>

#define ARCHITECTURE(name) &architecture_##name,
static const architecture *const architectures[] = {
#include "arch/architecture_list.h"
};
#undef ARCHITECTURE

enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

void recognition_count(recognition *r, bool is_there, const char *name)
{
    r->wanted++;
    r->matched += is_there ? 1 : 0;
    if (!is_there && r->missing[0] == 0) {
        snprintf(r->missing, sizeof r->missing, "%.*s", (int)sizeof r->missing - 1, name);
    }
}

const char *grail_architecture_at(int i)
{
    return i >= 0 && i < ARCHITECTURE_COUNT ? architectures[i]->name : NULL;
}

static const char *name_at(const void *list, int i)
{
    (void)list;
    return grail_architecture_at(i);
}

const architecture *architecture_named(const json_t *name)
{
    for (int i = 0; json_is_string(name) && i < ARCHITECTURE_COUNT; i++) {
        if (strcmp(architectures[i]->name, json_string_value(name)) == 0) {
            return architectures[i];
        }
    }
    return NULL;
}

grail_status architecture_find(const char *source, const json_t *config, const architecture **out)
{
    const char *name = NULL;
    grail_status status = json_get_string(source, config, "model_type", NULL, &name);
    if (status != GRAIL_OK) {
        return status;
    }
    *out = architecture_named(json_object_get(config, "model_type"));
    if (*out != NULL) {
        return GRAIL_OK;
    }
    status = error_set(GRAIL_ERROR_UNSUPPORTED, "%s: unknown model_type \"%s\"; expected one of",
                       source, name == NULL ? "(missing)" : name);
    error_append_names(NULL, name_at,
                       NULL); /* a program wrote it: a similar name is another family */
    if (name != NULL) {
        unknown_family_explain(name, config);
    }
    const char *inner =
        json_string_value(json_object_get(json_object_get(config, "text_config"), "model_type"));
    if (inner != NULL) {
        error_append("; its language model (\"text_config\") is a \"%s\", which is unknown, too",
                     inner);
    }
    return status;
}

/* A family of which hardly any tensor is there explains nothing. */
static grail_status fits_none(const checkpoint *weights, const architecture *nearest,
                              const recognition *r)
{
    enum { LEAST_SHARE = 4 };
    if (nearest != NULL && LEAST_SHARE * r->matched >= r->wanted) {
        const char *others =
            2 * r->matched < r->wanted ? "; a language model needs its config.json" : "";
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: its tensors fit no known family; the nearest is %s, but its tensor "
                         "'%s' is missing (%d of %d tensors are there)%s",
                         checkpoint_path(weights), nearest->name, r->missing, r->matched, r->wanted,
                         others);
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: its tensors fit no known family; these families are recognised by their tensors:",
        checkpoint_path(weights));
    const char *comma = "";
    for (int i = 0; i < ARCHITECTURE_COUNT; i++) {
        if (architectures[i]->recognise != NULL) {
            error_append("%s %s", comma, architectures[i]->name);
            comma = ",";
        }
    }
    error_append("; all others need a config.json");
    return status;
}

grail_status architecture_recognise(checkpoint *weights, const architecture **out, json_t **config)
{
    const architecture *nearest = NULL;
    recognition best = {.wanted = 1};
    for (int i = 0; i < ARCHITECTURE_COUNT; i++) {
        const architecture *a = architectures[i];
        recognition r = {0};
        if (a->recognise == NULL) {
            continue;
        }
        CHECK(network_prefix_of_family(a, weights, &r));
        CHECK(a->recognise(a, weights, &r, config));
        if (r.wanted > 0 && r.matched == r.wanted) {
            *out = a;
            return GRAIL_OK;
        }
        if ((int64_t)r.matched * best.wanted > (int64_t)best.matched * r.wanted) {
            nearest = a;
            best = r;
        }
    }
    return fits_none(weights, nearest, &best);
}

void judge_loaders_of_any_width(loader_verdict *verdicts)
{
    verdicts[1] = (loader_verdict){
        .loader = "ONNX Runtime", .loads = true, .reason = "the file that grail export writes"};
}

void judge_weights_file(const checkpoint *weights, loader_verdict *verdicts)
{
    const bool torch = checkpoint_format(weights) == &weights_format_torch;
    loader_verdict *file = &verdicts[LOADER_COUNT - 1];
    *file = (loader_verdict){.loader = torch ? "torch.load" : "safetensors",
                             .loads = true,
                             .reason = "the weights, as a dictionary of tensors"};
    if (checkpoint_onnx(weights) != NULL) {
        *file = (loader_verdict){
            .loader = "onnx.load", .loads = true, .reason = "the network with its weights"};
    }
    loader_lines_tensors(weights, file);
    for (int i = 0; i < LOADER_COUNT - 1; i++) {
        loader_lines_complete(file, &verdicts[i]);
    }
}
