/* Accuracy of a network that a compression holds in memory, at its narrow shapes. */
#include "eval/accuracy.h"

#include "arch/model_images.h"
#include "pipeline/compression.h"
#include "pipeline/network/narrow.h"

grail_status grail_compression_accuracy(grail_compression *c, const grail_image_source *source,
                                        int64_t images, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    image_set *set = NULL;
    parameter_store *narrow = NULL;
    TRY(accuracy_check_model(c->request->model));
    TRY(model_open_images(c->request->model, source, &set));
    TRY(narrow_store(c->network, &narrow));
    TRY(accuracy_measure(c->request->model, narrow, c->request->backend, set, images, 0, NULL, NULL,
                         out));
out:
    parameter_store_free(narrow);
    image_set_close(set);
    return status;
}
