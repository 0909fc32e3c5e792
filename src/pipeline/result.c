/* The result of a run that stays in memory: the public function. */
#include "pipeline/compression.h"

/* Which result a run has, if it has one that is kept. */
static grail_status check_kept(const grail_compression *c)
{
    CHECK(run_check_result(c, "take the result of"));
    if (c->kept == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the run writes its result to its output and does not keep it in memory; "
                         "finish it and open the output, or run without an output path");
    }
    const bool is_onnx = checkpoint_onnx(c->request->model->checkpoint) != NULL;
    if (is_onnx || c->request->narrowed.pairs != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: the result is %s file, which is not made in memory; give an "
                         "output path",
                         c->request->model->path, is_onnx ? "an ONNX" : "a GGUF");
    }
    return GRAIL_OK;
}

static grail_status complete(grail_compression *c)
{
    json_t *report = NULL;
    CHECK(kept_result_list(c->kept));
    CHECK(run_report(c, &report));
    c->report = report;
    CHECK(document_write(REPORT_NAME, report, kept_result_take, c->kept));
    return card_write(c->request, report, c->command, &c->sections, kept_result_take, c->kept);
}

/* What a failure left is made anew the next time. */
static grail_status complete_once(grail_compression *c)
{
    if (c->report != NULL) {
        return GRAIL_OK;
    }
    const grail_status status = complete(c);
    if (status != GRAIL_OK) {
        kept_result_clear(c->kept);
        json_decref(c->report);
        c->report = NULL;
    }
    return status;
}

grail_status grail_compression_result(grail_compression *c, grail_memory_model *out)
{
    CHECK(check_kept(c));
    CHECK(complete_once(c));
    *out = kept_result_model(c->kept, c->request->model->path);
    return GRAIL_OK;
}
