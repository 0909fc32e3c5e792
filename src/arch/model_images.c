#include "arch/model_images.h"

#include "arch/model_preparation.h"
#include "base/file.h"

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
    if (source->size == 0 && g->image.height > 0) {
        source->size = g->image.height;
    }
    return GRAIL_OK;
}

grail_status grail_images_open(const grail_model *model, const grail_image_source *source,
                               grail_images **out)
{
    grail_status status = GRAIL_OK;
    grail_image_source filled = *source;
    const image_preparation *usual = NULL;
    TRY(model_image_source(model, &filled));
    if (filled.preset == NULL) {
        TRY(model_preparation_use(model, &usual));
    }
    status = image_set_open_as(&filled, usual, out);
    if (status == GRAIL_ERROR_FORMAT && !file_is_directory(source->path)) {
        error_append("; the model reads images: give CIFAR batches, or a folder of JPEG and PNG "
                     "files");
    }
out:
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
