#include "planning/shared.h"

#include "base/parallel.h"
#include "graph/operators.h"
#include "pipeline/network/consumer.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

/* -- keys -------------------------------------------------------------------------------------- */

/* What all that is measured follows from, beside the network of the session: the samples by the
 * options that draw them and by what their files held, and what computes. */
static grail_status push_samples(const compression_request *r, const grail_compress_options *o,
                                 json_t *key)
{
    json_t *source = json_array();
    CHECK(json_push(key, source));
    CHECK(calibration_key(o, r->statistics, source));
    CHECK(json_push(key, json_incref(r->samples->description)));
    CHECK(json_push(key, json_integer((json_int_t)r->judges)));
    CHECK(json_push(key, json_boolean(o->output.keep_non_finite != 0)));
    CHECK(json_push(key, o->output.quantize == NULL ? json_null() : json_text(o->output.quantize)));
    CHECK(json_push(key, json_text(backend_name(r->backend))));
    CHECK(json_push(key, json_text(backend_precision(r->backend))));
    return json_push(key, json_integer(parallel_threads()));
}

/* Curves know of the selector its losses, and of the repair whether a fit has a bias, and how it
 * takes a convolution's taps. */
static grail_status curves_key(const compression_request *r, const grail_compress_options *o,
                               json_t *key)
{
    const compensation *how = &r->plan.compensation;
    CHECK(json_push(key, json_text("curves")));
    CHECK(push_samples(r, o, key));
    CHECK(json_push(key, json_text(gqa_words[r->plan.gqa])));
    for (int i = 0; i < r->sites->list.count; i++) {
        const site *s = site_at(r, i);
        CHECK(json_push(key, json_text(s->name)));
        CHECK(json_push(key, json_text(loss_curve_rule(&r->plan.sites[i])->name)));
        for (int k = 0; k < s->consumer_count; k++) {
            const int reader = s->consumers[k].node;
            const consumer_layout l = consumer_layout_of(&r->cut, i, k);
            const bool of_patches = map_is_fitted_by_tap(how, &r->graph->nodes[reader]);
            CHECK(json_push(key, json_pack("[I,I,I,I]", (json_int_t)l.rows, (json_int_t)l.features,
                                           (json_int_t)l.taps, (json_int_t)l.tap_rows)));
            CHECK(json_push(key, json_boolean(of_patches)));
            CHECK(json_push(key, json_boolean(consumer_fits_bias(r->graph, how, reader))));
        }
    }
    return GRAIL_OK;
}

static grail_status trial_key(const compression_request *r, const grail_compress_options *o,
                              json_t *key)
{
    const source_files none = {0}; /* the session has the model open */
    json_t *run = json_object();
    CHECK(json_push(key, json_text("trial")));
    CHECK(json_push(key, run));
    CHECK(fingerprint_of_run(r, o, &none, run));
    return push_samples(r, o, key);
}

typedef grail_status key_filler(const compression_request *r, const grail_compress_options *o,
                                json_t *key);

static grail_status make_key(const compression_request *r, const grail_compress_options *o,
                             key_filler *fill, char out[HASH_TEXT_SIZE])
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    json_t *key = NULL;
    out[0] = 0;
    if (comm_is_shared(r->comm)) {
        return GRAIL_OK;
    }
    buffer_init(&text, SIZE_MAX / 4);
    key = json_array();
    TRY(fill(r, o, key));
    TRY(json_append_text(key, &text));
    hash_bytes(text.bytes, text.size, out);
out:
    json_decref(key);
    buffer_fini(&text);
    return status;
}

/* -- what the session keeps -------------------------------------------------------------------- */

static const double *find(const compression_request *r, const char *key, size_t count)
{
    return key[0] == 0 ? NULL : kept_numbers_find(&r->session->kept, key, count);
}

static grail_status keep(const compression_request *r, const char *key, const double *numbers,
                         size_t count)
{
    grail_session *s = r->session;
    if (key[0] == 0) {
        return GRAIL_OK;
    }
    CHECK(kept_numbers_add(&s->kept, key, numbers, count));
    return s->keeper == NULL ? GRAIL_OK : s->keeper(s->keeper_user, key, numbers, count);
}

grail_status shared_curves(const compression_request *request,
                           const grail_compress_options *options, loss_times *times,
                           loss_curves *out)
{
    grail_status status = GRAIL_OK;
    calibration_network *network = NULL;
    char key[HASH_TEXT_SIZE];
    TRY(make_key(request, options, curves_key, key));
    TRY(loss_curves_init(&request->sites->list, out));
    const double *numbers = find(request, key, out->count);
    if (numbers != NULL) {
        *times = (loss_times){0};
        memcpy(out->numbers, numbers, out->count * sizeof numbers[0]);
        return GRAIL_OK;
    }
    TRY(comm_settle(request->comm, network_create(request, options->run.memory, &network)));
    TRY(loss_curves_collect(network, times, out));
    TRY(keep(request, key, out->numbers, out->count));
out:
    network_free(network);
    return status;
}

grail_status shared_trial_key(const compression_request *request,
                              const grail_compress_options *options, char key[HASH_TEXT_SIZE])
{
    return make_key(request, options, trial_key, key);
}

bool shared_divergence_find(const compression_request *request, const char *key, divergence *out)
{
    const size_t count = 2 * (size_t)out->count;
    const double *known = find(request, key, count);
    if (known != NULL) {
        memcpy(out->losses, known, count * sizeof known[0]);
    }
    return known != NULL;
}

grail_status shared_divergence_keep(const compression_request *request, const char *key,
                                    const divergence *d)
{
    return keep(request, key, d->losses, 2 * (size_t)d->count);
}
