#include "stats/statistics_origin.h"

#include "base/bytes.h"
#include "base/json.h"

#include <string.h>

enum { VERSION = 1 };

#define KEY(name) "grail.statistics." name
static const char version_key[] = KEY("version");
static const char model_key[] = KEY("model");
static const char precision_key[] = KEY("precision");
static const char fit_key[] = KEY("conv_fit");
static const char calibrations_key[] = KEY("calibrations");
static const char hashes_key[] = KEY("hashes");
static const char context_key[] = "imatrix.chunk_size";
static const char samples_key[] = "imatrix.chunk_count";
static const char type_key[] = "general.type";

void statistics_origin_fini(statistics_origin *o)
{
    memory_free(o->precision);
    memory_free(o->fit);
    json_decref(o->calibrations);
    hash_set_fini(&o->hashes);
    *o = (statistics_origin){0};
}

/* -- the model --------------------------------------------------------------------------------- */

static void hash_number(hash_state *state, int64_t number)
{
    unsigned char bytes[8];
    store_little(bytes, sizeof bytes, (uint64_t)number);
    hash_add(state, bytes, sizeof bytes);
}

/* The first, the middle and the last bytes. */
static void hash_pieces(hash_state *state, const tensor_view *t)
{
    enum { PIECE = 4096, PIECES = 3 };
    const unsigned char *bytes = t->data;
    if (t->bytes <= PIECE * PIECES) {
        hash_add(state, bytes, t->bytes);
        return;
    }
    for (size_t i = 0; i < PIECES; i++) {
        hash_add(state, bytes + (t->bytes - PIECE) / (PIECES - 1) * i, PIECE);
    }
}

static grail_status hash_tensor(hash_state *state, const grail_model *model, const tensor_view *t)
{
    CHECK(checkpoint_need(model->checkpoint, t));
    hash_add(state, t->name, strlen(t->name) + 1);
    hash_add(state, grail_dtype_name(t->dtype), strlen(grail_dtype_name(t->dtype)) + 1);
    hash_number(state, t->rank);
    for (int i = 0; i < t->rank; i++) {
        hash_number(state, t->shape[i]);
    }
    hash_pieces(state, t);
    checkpoint_release(model->checkpoint, t);
    return GRAIL_OK;
}

grail_status statistics_hash_model(const grail_model *model, char out[HASH_TEXT_SIZE])
{
    grail_status status = GRAIL_OK;
    hash_state state;
    buffer config = {0};
    buffer_init(&config, SIZE_MAX / 4);
    if (model->config != NULL) {
        TRY(json_append_text(model->config, &config));
    }
    hash_begin(&state);
    hash_add(&state, config.bytes, config.size);
    for (int i = 0; i < model->graph->parameter_count; i++) {
        TRY(hash_tensor(&state, model, model->tensors[i]));
    }
    hash_end(&state, out);
out:
    buffer_fini(&config);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

static grail_status missing(const char *key)
{
    return error_set(GRAIL_ERROR_FORMAT, "key '%s' is missing; take the statistics again", key);
}

static grail_status require_text(const gguf_metadata *m, const char *key, char **out)
{
    CHECK(gguf_get_text(m, key, out));
    return *out == NULL ? missing(key) : GRAIL_OK;
}

static grail_status require_count(const gguf_metadata *m, const char *key, int64_t *out)
{
    CHECK(gguf_get_integer(m, key, -1, out));
    if (*out < 1 || *out > INT32_MAX) {
        return gguf_find(m, key) == NULL
                   ? missing(key)
                   : error_set(GRAIL_ERROR_FORMAT, "key '%s' is %lld, expected 1 to %d", key,
                               (long long)*out, INT32_MAX);
    }
    return GRAIL_OK;
}

static grail_status read_model(const gguf_metadata *m, char out[HASH_TEXT_SIZE])
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    TRY(require_text(m, model_key, &text));
    if (strlen(text) != HASH_TEXT_SIZE - 1) {
        FAIL(GRAIL_ERROR_FORMAT, "key '%s' has %zu characters, expected %d", model_key,
             strlen(text), HASH_TEXT_SIZE - 1);
    }
    memcpy(out, text, HASH_TEXT_SIZE);
out:
    memory_free(text);
    return status;
}

static grail_status read_calibrations(const gguf_metadata *m, json_t **out)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    json_t *list = NULL;
    TRY(require_text(m, calibrations_key, &text));
    TRY(json_parse(calibrations_key, text, strlen(text), &list));
    if (!json_is_array(list)) {
        FAIL(GRAIL_ERROR_FORMAT, "key '%s' holds no JSON array", calibrations_key);
    }
    *out = json_incref(list);
out:
    json_decref(list);
    memory_free(text);
    return status;
}

bool statistics_origin_exists(const gguf_metadata *m)
{
    return gguf_find(m, version_key) != NULL;
}

grail_status statistics_origin_read(const gguf_metadata *m, statistics_origin *out)
{
    int64_t version = 0;
    *out = (statistics_origin){0};
    CHECK(require_count(m, version_key, &version));
    if (version != VERSION) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "key '%s' is %lld, and this grail reads %d; take the statistics again",
                         version_key, (long long)version, VERSION);
    }
    CHECK(read_model(m, out->model));
    CHECK(require_text(m, precision_key, &out->precision));
    CHECK(require_text(m, fit_key, &out->fit));
    CHECK(require_count(m, context_key, &out->context));
    CHECK(require_count(m, samples_key, &out->samples));
    CHECK(read_calibrations(m, &out->calibrations));
    const gguf_value *value = gguf_find(m, hashes_key);
    CHECK(hash_set_init(&out->hashes));
    if (value == NULL) {
        return GRAIL_OK;
    }
    if (!value->is_array || value->type != GGUF_U64 || value->count > HASH_SET_MOST) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' is no array of at most %d u64", hashes_key,
                         HASH_SET_MOST);
    }
    for (uint64_t i = 0; i < value->count; i++) {
        out->hashes.hashes[out->hashes.count++] =
            load_little(value->bytes + i * sizeof(uint64_t), 8);
    }
    hash_set_settle(&out->hashes);
    return GRAIL_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static const char *name_of_data(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "file"));
    name = name == NULL ? json_string_value(json_object_get(record, "images")) : name;
    return name == NULL ? "" : name;
}

/* Those of one calibration set, which may have parts; out NULL: only counts them. */
static grail_status put_names(const json_t *record, uint64_t *count, gguf_pairs *out)
{
    const json_t *parts = json_object_get(record, "parts");
    const size_t names = json_array_size(parts) == 0 ? 1 : json_array_size(parts);
    for (size_t i = 0; out != NULL && i < names; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *name = name_of_data(part == NULL ? record : part);
        CHECK(gguf_append_text(out, name, strlen(name)));
    }
    *count += names;
    return GRAIL_OK;
}

static grail_status put_calibrations(const json_t *calibrations, gguf_pairs *out)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_text(calibrations, &text));
    TRY(gguf_put_text(out, calibrations_key, (const char *)text.bytes));
out:
    buffer_fini(&text);
    return status;
}

static grail_status put_hashes(const hash_set *hashes, gguf_pairs *out)
{
    CHECK(gguf_put_array(out, hashes_key, GGUF_U64, (uint64_t)hashes->count));
    for (int64_t i = 0; i < hashes->count; i++) {
        CHECK(gguf_append_integer(out, GGUF_U64, (int64_t)hashes->hashes[i]));
    }
    return GRAIL_OK;
}

grail_status statistics_origin_put(const statistics_origin *o, gguf_pairs *out)
{
    CHECK(gguf_put_text(out, type_key, "imatrix"));
    /* llama.cpp's tools want the names of the data as texts. */
    uint64_t count = 0;
    uint64_t put = 0;
    for (size_t i = 0; i < json_array_size(o->calibrations); i++) {
        CHECK(put_names(json_array_get(o->calibrations, i), &count, NULL));
    }
    CHECK(gguf_put_array(out, "imatrix.datasets", GGUF_TEXT, count));
    for (size_t i = 0; i < json_array_size(o->calibrations); i++) {
        CHECK(put_names(json_array_get(o->calibrations, i), &put, out));
    }
    CHECK(gguf_put_integer(out, samples_key, GGUF_U32, o->samples));
    CHECK(gguf_put_integer(out, context_key, GGUF_U32, o->context));
    CHECK(gguf_put_integer(out, version_key, GGUF_U32, VERSION));
    CHECK(gguf_put_text(out, model_key, o->model));
    CHECK(gguf_put_text(out, precision_key, o->precision));
    CHECK(gguf_put_text(out, fit_key, o->fit));
    CHECK(put_calibrations(o->calibrations, out));
    return put_hashes(&o->hashes, out);
}

/* -- adding ------------------------------------------------------------------------------------ */

static grail_status check_equal(const char *what, const char *path, const char *a,
                                const char *other_path, const char *b)
{
    return strcmp(a, b) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "'%s' was taken with %s '%s' and '%s' with '%s', which do not add up",
                           path, what, a, other_path, b);
}

grail_status statistics_origin_add(const char *path, statistics_origin *o, const char *other_path,
                                   const statistics_origin *other)
{
    if (strcmp(o->model, other->model) != 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' and '%s' hold statistics of different models, which do not add up",
                         path, other_path);
    }
    if (o->context != other->context) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' was taken with a context of %lld and '%s' with %lld, which do not "
                         "add up; take both with the same one",
                         path, (long long)o->context, other_path, (long long)other->context);
    }
    CHECK(check_equal("the precision", path, o->precision, other_path, other->precision));
    CHECK(check_equal("the fit of convolutions", path, o->fit, other_path, other->fit));
    o->samples += other->samples; /* of two numbers below 2^31 */
    if (o->samples > INT32_MAX) {
        return error_set(GRAIL_ERROR_ARGUMENT, "'%s' and '%s' hold more than %d samples together",
                         path, other_path, INT32_MAX);
    }
    for (size_t i = 0; i < json_array_size(other->calibrations); i++) {
        CHECK(json_push(o->calibrations, json_deep_copy(json_array_get(other->calibrations, i))));
    }
    return hash_set_add(&o->hashes, &other->hashes);
}
