#include "eval/task_lines.h"

static grail_status fill_line(const task_documents *d, int64_t index, const double *log_likelihoods,
                              json_t *line)
{
    grail_status status = GRAIL_OK;
    const task_document *document = &d->documents[index];
    json_t *values = json_array();
    for (int64_t i = 0; i < document->count; i++) {
        TRY(json_push(values, json_real(log_likelihoods[document->first + i])));
    }
    TRY(json_put(line, "task", json_text(d->name)));
    TRY(json_put(line, "index", json_integer(index)));
    TRY(json_put(line, "gold", json_integer(document->gold)));
    TRY(json_put(line, "log_likelihoods", json_incref(values)));
out:
    json_decref(values);
    return status;
}

grail_status task_lines_append(const task_documents *d, const double *log_likelihoods, buffer *out)
{
    grail_status status = GRAIL_OK;
    for (int64_t i = 0; i < d->count && status == GRAIL_OK; i++) {
        json_t *line = json_object();
        status = fill_line(d, i, log_likelihoods, line);
        if (status == GRAIL_OK) {
            status = json_append_line(line, out);
        }
        json_decref(line);
    }
    return status;
}
