/* Accuracy of a network that a compression holds in memory, at its narrow shapes. */
#include "eval/accuracy.h"

#include "pipeline/compression.h"
#include "pipeline/network/narrow.h"

grail_status grail_compression_accuracy(grail_compression *c, const grail_images *images,
                                        int64_t count, grail_eval_observer observer, void *user,
                                        grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *narrow = NULL;
    if (c->output != NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the run writes its result to its output and does not keep it "
                                   "in memory; open the output to measure it");
    }
    TRY(run_check_result(c, "measure the result of"));
    TRY(accuracy_check_model(c->request->model));
    TRY(narrow_store(c->network, &narrow));
    TRY(accuracy_measure(c->request->model, narrow, images, count, 0, NULL, observer, user, out));
out:
    parameter_store_free(narrow);
    return status;
}
