/* Accuracy and perplexity of a network that a compression holds in memory, at its narrow shapes. */
#include "arch/model_text.h"
#include "eval/accuracy.h"
#include "eval/perplexity.h"

#include "pipeline/compression.h"

/* *out is owned. */
static grail_status narrow_of_result(const grail_compression *c, parameter_store **out)
{
    if (c->output != NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the run writes its result to its output and does not keep it in memory; "
                         "open the output to measure it");
    }
    CHECK(run_check_result(c, "measure the result of"));
    return narrow_store(c->network, out);
}

grail_status grail_compression_accuracy(grail_compression *c, const grail_images *images,
                                        int64_t count, grail_eval_observer observer, void *user,
                                        grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *narrow = NULL;
    const accuracy_task task = {.set = images,
                                .images = count,
                                .comm = c->request->comm,
                                .observer = observer,
                                .user = user};
    TRY(accuracy_check_model(c->request->model));
    TRY(comm_settle(task.comm, narrow_of_result(c, &narrow)));
    TRY(accuracy_measure(c->request->model, narrow, &task, out));
out:
    parameter_store_free(narrow);
    return status;
}

static grail_status narrow_to_measure(const grail_compression *c, int64_t windows,
                                      parameter_store **out)
{
    CHECK(perplexity_check_windows(windows));
    return narrow_of_result(c, out);
}

grail_status grail_compression_perplexity(grail_compression *c, const grail_text_source *source,
                                          int64_t windows, grail_eval_observer observer, void *user,
                                          grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *narrow = NULL;
    TRY(model_check_next_token(c->request->model, "perplexity is made of"));
    TRY(comm_settle(c->request->comm, narrow_to_measure(c, windows, &narrow)));
    TRY(perplexity_measure(c->request->model, narrow, source, windows, c->request->comm, observer,
                           user, out));
out:
    parameter_store_free(narrow);
    return status;
}
