#include "pipeline/session.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

grail_status grail_session_open(const char *path, const grail_model_options *options,
                                grail_session **out)
{
    grail_status status = GRAIL_OK;
    grail_session *s = NULL;
    TRY(memory_new(&s, 1, sizeof *s));
    TRY(grail_model_open_with(path, options, &s->model));
    TRY(memory_new(&s->of_nodes, (size_t)s->model->graph->node_count, sizeof s->of_nodes[0]));
    *out = s;
    s = NULL;
out:
    grail_session_close(s);
    return status;
}

static void forget_statistics(grail_session *s)
{
    for (int n = 0; s->of_nodes != NULL && n < s->model->graph->node_count; n++) {
        grail_statistics_free(s->of_nodes[n].fit);
        grail_statistics_free(s->of_nodes[n].held);
        memory_free(s->of_nodes[n].squares);
        s->of_nodes[n] = (dense_statistics){0};
    }
    memory_free(s->calibration);
    s->calibration = NULL;
}

void grail_session_close(grail_session *s)
{
    if (s != NULL) {
        forget_statistics(s);
        memory_free(s->of_nodes);
        grail_model_close(s->model);
        memory_free(s);
    }
}

grail_model *grail_session_model(grail_session *s)
{
    return s->model;
}

grail_status session_use_calibration(grail_session *s, const json_t *description, uint64_t seed)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    char *key = NULL;
    enum { DESCRIPTION_MAXIMUM = 1 << 20 };
    buffer_init(&text, DESCRIPTION_MAXIMUM);
    TRY(json_append_text(description, &text));
    TRY(memory_format(&key, "%llu %.*s", (unsigned long long)seed, (int)text.size,
                      (const char *)text.bytes));
    if (s->calibration == NULL || strcmp(s->calibration, key) != 0) {
        forget_statistics(s);
        s->calibration = key;
        key = NULL;
    }
out:
    buffer_fini(&text);
    memory_free(key);
    return status;
}
