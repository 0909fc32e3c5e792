#include "pipeline/request/session.h"

#include "base/json.h"
#include "base/names.h"
#include "pipeline/request/calibration_record.h"

#include <grail/memory.h>

#include <string.h>

/* Takes the model, which it closes on failure. */
static grail_status open_session(grail_model *model, grail_session **out)
{
    grail_status status = GRAIL_OK;
    grail_session *s = NULL;
    TRY(memory_new(&s, 1, sizeof *s));
    s->model = model;
    model = NULL;
    TRY(memory_new(&s->of_nodes, (size_t)s->model->graph->node_count, sizeof s->of_nodes[0]));
    TRY(memory_new(&s->metrics, (size_t)s->model->graph->node_count, sizeof s->metrics[0]));
    *out = s;
    s = NULL;
out:
    grail_model_close(model);
    grail_session_close(s);
    return status;
}

grail_status grail_session_open(const char *path, const grail_model_options *options,
                                grail_session **out)
{
    grail_model *model = NULL;
    CHECK(grail_model_open_with(path, options, &model));
    return open_session(model, out);
}

grail_status grail_session_open_memory(const grail_memory_model *memory,
                                       const grail_model_options *options, grail_session **out)
{
    grail_model *model = NULL;
    CHECK(grail_model_open_memory(memory, options, &model));
    return open_session(model, out);
}

static void forget_statistics(grail_session *s)
{
    for (int n = 0; s->of_nodes != NULL && n < s->model->graph->node_count; n++) {
        grail_statistics_free(s->of_nodes[n].fit);
        grail_statistics_free(s->of_nodes[n].held);
        matrix_free(&s->of_nodes[n].squares);
        s->of_nodes[n] = (dense_statistics){0};
    }
    for (int n = 0; s->metrics != NULL && n < s->model->graph->node_count; n++) {
        matrix_free(&s->metrics[n]);
    }
    calibration_release(s->counted);
    s->counted = NULL;
}

static void forget_samples(grail_session *s)
{
    calibration_release(s->samples);
    s->samples = NULL;
    json_decref(s->samples_key);
    s->samples_key = NULL;
}

static void close_backends(grail_session *s)
{
    for (int i = 0; i < s->backend_count; i++) {
        backend_close(s->backends[i]);
        memory_free(s->scratch[i]);
    }
    memory_free(s->backends);
    memory_free(s->scratch);
}

void grail_session_close(grail_session *s)
{
    if (s != NULL) {
        forget_statistics(s);
        forget_samples(s);
        drawn_windows_fini(&s->drawn);
        memory_free(s->of_nodes);
        memory_free(s->metrics);
        memory_free(s->notice);
        kept_numbers_fini(&s->kept);
        close_backends(s);
        grail_model_close(s->model);
        memory_free(s);
    }
}

grail_model *grail_session_model(grail_session *s)
{
    return s->model;
}

const char *grail_session_notice(const grail_session *s)
{
    return s->notice;
}

grail_status session_note(grail_session *s, const calibration *samples)
{
    const json_t *notice = json_object_get(samples->description, CALIBRATION_NOTICE_KEY);
    memory_free(s->notice);
    s->notice = NULL;
    return notice == NULL ? GRAIL_OK : memory_copy_string(&s->notice, json_string_value(notice));
}

grail_status session_calibration(grail_session *s, const grail_compress_options *options,
                                 const network_statistics *statistics, calibration **out)
{
    grail_status status = GRAIL_OK;
    json_t *key = json_array();
    TRY(calibration_key(options, statistics, key));
    if (s->samples == NULL || !json_equal(s->samples_key, key)) {
        forget_samples(s);
        TRY(calibration_read(s->model, options, statistics, &s->drawn, &s->samples));
        s->samples_key = key;
        key = NULL;
    }
    *out = calibration_hold(s->samples);
out:
    json_decref(key);
    return status;
}

static backend *find_backend(const grail_session *s, const backend_options *wanted,
                             const char *name)
{
    for (int i = 0; i < s->backend_count; i++) {
        if (backend_is(s->backends[i], name, wanted->precision) &&
            names_equal(s->scratch[i], wanted->scratch)) {
            return s->backends[i];
        }
    }
    return NULL;
}

grail_status session_backend(grail_session *s, const grail_compute *compute, const char *scratch,
                             backend **out)
{
    grail_status status = GRAIL_OK;
    const size_t count = (size_t)s->backend_count;
    const char *name = compute_backend(compute);
    char *place = NULL;
    backend_options options = {.precision = compute_statistics_precision(compute, s->model),
                               .scratch = scratch};
    options.precision =
        options.precision == NULL ? backend_first_precision(name) : options.precision;
    *out = options.precision == NULL ? NULL : find_backend(s, &options, name);
    if (*out != NULL) {
        return GRAIL_OK;
    }
    TRY(memory_reserve(&s->backends, count + 1, sizeof s->backends[0]));
    TRY(memory_reserve(&s->scratch, count + 1, sizeof s->scratch[0]));
    if (scratch != NULL) {
        TRY(memory_copy_string(&place, scratch));
    }
    options.scratch = place;
    TRY(backend_open(name, &options, &s->backends[count]));
    s->scratch[count] = place;
    place = NULL;
    *out = s->backends[s->backend_count++];
out:
    memory_free(place);
    return status;
}

void session_count(grail_session *s, calibration *samples, judging apart, const backend *by)
{
    if (s->counted != samples || s->counted_apart != apart || s->counted_by != by) {
        calibration *held = calibration_hold(samples); /* it may be released next */
        forget_statistics(s);
        s->counted = held;
        s->counted_apart = apart;
        s->counted_by = by;
    }
}
