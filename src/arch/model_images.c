#include "arch/model_images.h"

#include "arch/model_arrays.h"
#include "arch/model_preparation.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/option_values.h"

#include <stdio.h>

grail_status model_image_source(const grail_model *model, grail_image_source *source)
{
    const graph *g = model->graph;
    if (g->input_kind != INPUT_IMAGES) {
        const grail_status status =
            error_set(GRAIL_ERROR_ARGUMENT,
                      "%s: this network reads text, not images; give the path of a text",
                      checkpoint_path(model->checkpoint));
        return error_about(status, "path");
    }
    const bool is_square = g->image.height == g->image.width;
    if (source->pixels != NULL && !is_square) {
        return error_about(
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "images in memory are square, but the network reads %lld x %lld; give arrays "
                      "(.npy)",
                      (long long)g->image.width, (long long)g->image.height),
            "pixels");
    }
    if (source->size == 0 && is_square && g->image.height > 0) {
        source->size = g->image.height;
    }
    return GRAIL_OK;
}

grail_status model_describe_images(const grail_model *model, const grail_image_source *source,
                                   char **out)
{
    enum { MOST = 1024 };
    grail_status status = GRAIL_OK;
    grail_image_source filled = *source;
    const image_preparation *p = NULL;
    buffer text = {0};
    buffer_init(&text, MOST);
    TRY(model_image_source(model, &filled));
    TRY(model_preparation_use(model, &p));
    const int64_t side = filled.size > 0 ? filled.size : p->side;
    const extent own = model->graph->image;
    const bool is_exact = filled.size == 0 && own.height != own.width;
    TRY(buffer_format(&text, "%lld x %lld pixels", (long long)(is_exact ? own.width : side),
                      (long long)(is_exact ? own.height : side)));
    if (model->graph->channels == 1) {
        TRY(buffer_format(&text, ", grey"));
    }
    if (is_exact && p->edges != IMAGE_NOT_RESIZED) {
        TRY(buffer_format(&text, ", resized to that (%s)", image_filter_name(p->filter)));
    } else if (p->edges != IMAGE_NOT_RESIZED) {
        TRY(buffer_format(&text, ", %s resized to %lld (%s%s%s)",
                          p->edges == IMAGE_BOTH_EDGES ? "both edges" : "the shorter edge",
                          (long long)image_resized_length(p, side), image_filter_name(p->filter),
                          p->own_mode ? ", before they become RGB" : "",
                          p->crops_down ? ", the crop rounded down" : ""));
    }
    if (p->rescale != 1.0 / 255.0) {
        TRY(buffer_format(&text, ", bytes times %.6g", p->rescale));
    }
    const double *mean = image_values(&filled.mean, p->mean);
    const double *deviation = image_values(&filled.deviation, p->deviation);
    TRY(buffer_format(&text, ", mean %.6g,%.6g,%.6g, std %.6g,%.6g,%.6g", mean[0], mean[1], mean[2],
                      deviation[0], deviation[1], deviation[2]));
    TRY(memory_copy_string(out, (const char *)text.bytes));
out:
    buffer_fini(&text);
    return status;
}

/* Gives class folders that are named after the network's classes the indices that its configuration
 * names them by: "id2label" of Hugging Face, {"0": "tench", ...}, or timm's "label_names", an
 * object like that or an array. */
static grail_status name_classes(const grail_model *model, image_set *set)
{
    grail_status status = GRAIL_OK;
    const int64_t count = model->graph->classes;
    const json_t *transformers = json_object_get(model->config, "id2label");
    const json_t *labels =
        transformers == NULL ? json_object_get(model->config, "label_names") : transformers;
    const char **names = NULL;
    TRY(memory_new(&names, (size_t)count, sizeof names[0]));
    for (int64_t i = 0; labels != NULL && i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)i);
        names[i] = json_string_value(json_is_array(labels) ? json_array_get(labels, (size_t)i)
                                                           : json_object_get(labels, key));
    }
    TRY(image_set_name_classes(set, names, count));
out:
    memory_free(names);
    return status;
}

grail_status grail_images_open(const grail_model *model, const grail_image_source *source,
                               grail_images **out)
{
    grail_status status = GRAIL_OK;
    grail_image_source filled = *source;
    const image_preparation *usual = NULL;
    bool is_unprepared = false;
    image_set *set = NULL;
    char *ordered = NULL;
    array_layout *layouts = NULL;
    if (!image_source_is_given(source)) {
        TRY(option_given("path", "path of images", NULL));
    }
    TRY(model_image_source(model, &filled));
    if (model->graph->input_count > 0 && source->pixels == NULL) {
        TRY(model_order_arrays(model, source->path, &ordered, &layouts));
        filled.path = ordered;
    }
    TRY(image_source_is_unprepared(&filled, &is_unprepared));
    if (filled.preset == NULL && !is_unprepared) {
        TRY(model_preparation_use(model, &usual));
    }
    status = image_set_open_as(&filled, usual, layouts, &set);
    if (status == GRAIL_ERROR_FORMAT && !is_unprepared && !file_is_directory(source->path)) {
        error_append("; the model reads images: give CIFAR batches, a folder of JPEG and PNG "
                     "files, or arrays (.npy)");
    }
    TRY(status);
    const graph *g = model->graph;
    TRY(image_set_settle(set, &filled, g->in_row, g->channels_last ? g->channels : 0));
    const extent own = filled.size > 0 ? (extent){0} : model->graph->image;
    if (!is_unprepared) {
        TRY(image_set_fit(set, own.height, own.width, model->graph->channels));
    }
    if (image_set_rule(set)->channels != model->graph->channels) {
        FAIL_ABOUT("path", GRAIL_ERROR_SHAPE,
                   "%s: the images have %lld channels, but the network reads %lld%s",
                   image_source_place(source), (long long)image_set_rule(set)->channels,
                   (long long)model->graph->channels,
                   is_unprepared ? "" : "; give arrays of them (.npy)");
    }
    TRY(name_classes(model, set));
    *out = set;
    set = NULL;
out:
    memory_free(layouts);
    memory_free(ordered);
    image_set_close(set);
    return status;
}

void grail_images_close(grail_images *images)
{
    image_set_close(images);
}

int64_t grail_images_count(const grail_images *images)
{
    return image_set_count(images);
}

int64_t grail_images_labelled(const grail_images *images)
{
    int64_t labelled = 0;
    for (int64_t i = 0; i < image_set_count(images); i++) {
        labelled += image_set_label(images, i) >= 0 ? 1 : 0;
    }
    return labelled;
}
