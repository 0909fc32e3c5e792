#include "arch/model_preparation.h"

#include "arch/model_config.h"
#include "arch/preparation_read.h"

#include <grail/images.h>

#include <stdio.h>
#include <string.h>

enum { FAILURE_SIZE = 1024 };

/* Keeps an error that is about the file. Lack of memory is returned. */
static grail_status keep_failure(model_preparation *p, grail_status status)
{
    char text[FAILURE_SIZE];
    if (status == GRAIL_OK || status == GRAIL_ERROR_MEMORY) {
        return status;
    }
    error_copy(text, sizeof text);
    p->failure = status;
    return memory_copy_string(&p->failure_text, text);
}

static bool is_found(const model_preparation *p)
{
    return p->what.name != NULL || p->failure_text != NULL;
}

static grail_status use_preset(grail_model *m, const char *origin)
{
    grail_status status = GRAIL_OK;
    const image_preparation *preset = NULL;
    const char *name = m->architecture->preset(m->config);
    if (name == NULL) {
        return keep_failure(m->preparation,
                            error_set(GRAIL_ERROR_ARGUMENT,
                                      "%s: nothing says how images are prepared for this network",
                                      m->path));
    }
    status = image_preset_find(name, &preset);
    if (status == GRAIL_ERROR_ARGUMENT) {
        error_prefix("%s", origin == NULL ? m->path : origin);
        m->preparation->origin = origin;
        return keep_failure(m->preparation, GRAIL_ERROR_FORMAT);
    }
    if (status == GRAIL_OK) {
        m->preparation->what = *preset;
        m->preparation->origin = origin;
    }
    return status;
}

static grail_status use_file(grail_model *m, const char *directory, const char *name)
{
    grail_status status = GRAIL_OK;
    model_preparation *p = m->preparation;
    model_config file = {0};
    if (is_found(p)) {
        return GRAIL_OK;
    }
    status = model_config_read_beside(m->checkpoint, directory, name, &file);
    const json_t *part = file.document;
    if (strcmp(name, PROCESSOR_CONFIG_NAME) == 0) { /* which also describes text */
        part = json_object_get(part, "image_processor");
    }
    if (status != GRAIL_OK || json_is_object(part)) {
        if (status == GRAIL_OK) {
            status = strcmp(name, OPEN_CLIP_CONFIG_NAME) == 0
                         ? preparation_of_open_clip(file.path, part, &p->what)
                         : preparation_of_huggingface(file.path, part,
                                                      m->architecture->image_processor, &p->what);
        }
        p->origin = name;
        p->file = name;
        status = keep_failure(p, status);
    }
    model_config_fini(&file);
    return status;
}

/* The preparation in public words, at the size that the network takes. */
static grail_preprocessing in_words(const grail_model *m)
{
    const image_preparation *p = &m->preparation->what;
    const bool resizes = p->edges != IMAGE_NOT_RESIZED;
    const extent own = model_image_extent(m);
    const bool is_exact = own.height != own.width; /* resized to that, and not cropped */
    grail_preprocessing words = {
        .preset = p->name,
        .origin = m->preparation->origin,
        .notice = m->preparation->notice[0] == 0 ? NULL : m->preparation->notice,
        .edges = !resizes                                   ? NULL
                 : is_exact || p->edges == IMAGE_BOTH_EDGES ? "both"
                                                            : "shorter",
        .resize = is_exact && resizes ? own.height : image_resized_length(p, own.height),
        .crop = own.height,
        .interpolation = resizes ? image_filter_name(p->filter) : NULL,
        .rescale = p->rescale,
    };
    memcpy(words.mean, p->mean, sizeof words.mean);
    memcpy(words.deviation, p->deviation, sizeof words.deviation);
    return words;
}

/* In this order: a setting, timm's config.json, the files of the directory, a preset of the
 * configuration, that of the family, which is an assumption. */
grail_status model_preparation_find(grail_model *m, const char *directory, bool is_recognised,
                                    const char *preset)
{
    /* A network that is recognised by its tensors is more likely open_clip's own. */
    static const char *const all[] = {OPEN_CLIP_CONFIG_NAME, PREPROCESSOR_CONFIG_NAME,
                                      PROCESSOR_CONFIG_NAME, OPEN_CLIP_CONFIG_NAME};
    const char *const *files = is_recognised ? all : all + 1;
    const extent own = m->graph->image; /* of networks with learned positions */
    const int64_t side = own.height == own.width ? own.height : 0;
    CHECK(memory_new(&m->preparation, 1, sizeof *m->preparation));
    model_preparation *p = m->preparation;
    if (preset != NULL && strcmp(preset, PREPARATION_BY_SETTING) == 0) {
        CHECK(use_preset(m, preset));
    }
    if (!is_found(p) && m->config_name != NULL) {
        char *source = NULL;
        bool found = false;
        CHECK(memory_format(&source, "%s: %s", m->path, m->config_name));
        const grail_status status = preparation_of_timm(source, m->config, &found, &p->what);
        memory_free(source);
        p->origin = found || status != GRAIL_OK ? m->config_name : p->origin;
        CHECK(keep_failure(p, status));
    }
    for (int i = 0; i < 3; i++) {
        CHECK(use_file(m, directory, files[i]));
    }
    if (is_found(p)) {
        if (p->failure_text == NULL && side > 0 && side != p->what.side) {
            snprintf(p->notice, sizeof p->notice,
                     "%s is for images of %lld pixels, but the network takes %lld; the resize is "
                     "scaled in proportion",
                     p->origin, (long long)p->what.side, (long long)side);
        }
        return GRAIL_OK;
    }
    CHECK(use_preset(m, preset));
    if (p->what.name == NULL || p->origin != NULL) {
        return GRAIL_OK;
    }
    char steps[96]; /* "shorter edge to 256, bilinear, crop 224" */
    const grail_preprocessing words = in_words(m);
    const long long crop = (long long)words.crop;
    if (words.edges == NULL) {
        snprintf(steps, sizeof steps, "%lld x %lld pixels, not resized", crop, crop);
    } else {
        snprintf(steps, sizeof steps, "%s %lld, %s, crop %lld",
                 strcmp(words.edges, "both") == 0 ? "both edges to" : "shorter edge to",
                 (long long)words.resize, words.interpolation, crop);
    }
    snprintf(p->notice, sizeof p->notice,
             "nothing says how images are prepared for this %s network; assumed is the preset %s "
             "(%s, mean %g %g %g, std %g %g %g); naming a preset chooses another",
             m->architecture->name, words.preset, steps, words.mean[0], words.mean[1],
             words.mean[2], words.deviation[0], words.deviation[1], words.deviation[2]);
    return GRAIL_OK;
}

void model_preparation_free(model_preparation *p)
{
    if (p != NULL) {
        memory_free(p->failure_text);
        memory_free(p);
    }
}

grail_status model_preparation_use(const grail_model *model, const image_preparation **out)
{
    const model_preparation *p = model->preparation;
    *out = NULL;
    if (p == NULL) {
        return GRAIL_OK;
    }
    if (p->failure_text != NULL) {
        return error_about(error_set(p->failure, "%s; name the preset by which images are prepared",
                                     p->failure_text),
                           "preset");
    }
    *out = &p->what;
    return GRAIL_OK;
}

grail_status grail_model_preprocessing(const grail_model *model, grail_preprocessing *out)
{
    const image_preparation *p = NULL;
    if (model->graph->input_kind == INPUT_IMAGES && model->graph->input_count > 0) {
        *out = (grail_preprocessing){.preset = NULL}; /* arrays by name, which nothing prepares */
        return GRAIL_OK;
    }
    if (model->preparation == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: this network reads text, not images",
                         model->path);
    }
    CHECK(model_preparation_use(model, &p));
    *out = in_words(model);
    return GRAIL_OK;
}
