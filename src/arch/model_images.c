#include "arch/model_images.h"

grail_status model_image_source(const grail_model *model, grail_image_source *source)
{
    const graph *g = model->graph;
    if (g->input_kind != INPUT_IMAGES) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%s: this network reads text, not images; give --data a text file",
                         checkpoint_path(model->checkpoint));
    }
    if (source->preset == NULL && model->architecture->preset != NULL) {
        source->preset = model->architecture->preset(model->config);
    }
    if (source->size == 0 && g->image.height > 0) {
        source->size = g->image.height;
    }
    return GRAIL_OK;
}
