/* A library that looks like ONNX Runtime, whatever its models are: the one output is its first
 * input times 2, plus the number of the channel, the second dimension. How it fails is chosen by
 * fake_mode. With FAKE_ONNXRUNTIME_OLD in the environment it is an old release. */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 140, MOST_RANK = 8, FLOAT_TYPE = 1, INT64_TYPE = 7 };

typedef enum fake_kind {
    AS_IT_SHOULD,
    OTHER_CHANNELS,
    OTHER_TYPE,
    REFUSED,
    NOT_A_NUMBER
} fake_kind;

#define SHOWN __attribute__((visibility("default")))

SHOWN _Atomic int fake_mode, fake_sessions, fake_runs, fake_samples, fake_alive;

typedef struct fake_value {
    int type;
    size_t rank;
    int64_t shape[MOST_RANK];
    float *values;
    int owns;
} fake_value;

static char refusal[] = "the fake refuses";

static const char *message_of(const void *status)
{
    return status;
}

static void *make_object(void **out)
{
    *out = malloc(1);
    atomic_fetch_add(&fake_alive, 1);
    return NULL;
}

static void *create_env(int level, const char *name, void **out)
{
    (void)level;
    (void)name;
    return make_object(out);
}

static void *create_session(void *env, const void *bytes, size_t size, void *options, void **out)
{
    (void)env;
    (void)options;
    if (bytes == NULL || size == 0) {
        return refusal;
    }
    atomic_fetch_add(&fake_sessions, 1);
    return make_object(out);
}

static size_t count_of(const fake_value *v)
{
    size_t count = 1;
    for (size_t d = 0; d < v->rank; d++) {
        count *= (size_t)v->shape[d];
    }
    return count;
}

static void *run(void *session, void *how, const char *const *names, const fake_value *const *in,
                 size_t inputs, const char *const *made, size_t outputs, fake_value **out)
{
    const int mode = fake_mode;
    (void)session;
    (void)how;
    (void)names;
    (void)made;
    if (mode == REFUSED || inputs == 0 || outputs != 1) {
        return refusal;
    }
    fake_value *v = malloc(sizeof *v);
    *v = *in[0];
    v->shape[1] += mode == OTHER_CHANNELS;
    v->type = mode == OTHER_TYPE ? INT64_TYPE : FLOAT_TYPE;
    v->owns = 1;
    v->values = malloc((count_of(v) + 1) * sizeof(float));
    const size_t channels = (size_t)in[0]->shape[1];
    const size_t positions = count_of(in[0]) / channels / (size_t)in[0]->shape[0];
    for (size_t i = 0; i < count_of(in[0]); i++) {
        v->values[i] = 2.0F * in[0]->values[i] + (float)(i / positions % channels);
    }
    v->values[0] = mode == NOT_A_NUMBER ? NAN : v->values[0];
    out[0] = v;
    atomic_fetch_add(&fake_runs, 1);
    fake_samples = (int)in[0]->shape[0];
    atomic_fetch_add(&fake_alive, 1);
    return NULL;
}

static void *set_number(void *options, int number)
{
    (void)options;
    (void)number;
    return NULL;
}

static void *set_nothing(void *options)
{
    (void)options;
    return NULL;
}

static void *set_entry(void *options, const char *key, const char *value)
{
    (void)options;
    return key == NULL || value == NULL ? refusal : NULL;
}

static void *hold(void *memory, void *values, size_t bytes, const int64_t *shape, size_t rank,
                  int type, fake_value **out)
{
    fake_value *v = malloc(sizeof *v);
    (void)memory;
    *v = (fake_value){.type = type, .rank = rank, .values = values};
    memcpy(v->shape, shape, rank * sizeof shape[0]);
    *out = v;
    atomic_fetch_add(&fake_alive, 1);
    return count_of(v) * sizeof(float) == bytes ? NULL : refusal;
}

static void *is_tensor(const fake_value *v, int *out)
{
    *out = v != NULL;
    return NULL;
}

static void *values_of(fake_value *v, void **out)
{
    *out = v->values;
    return NULL;
}

static void *type_of(const fake_value *v, int *out)
{
    *out = v->type;
    return NULL;
}

static void *rank_of(const fake_value *v, size_t *out)
{
    *out = v->rank;
    return NULL;
}

static void *shape_of(const fake_value *v, int64_t *out, size_t count)
{
    memcpy(out, v->shape, count * sizeof out[0]);
    return NULL;
}

static void *describe(const fake_value *v, const fake_value **out)
{
    *out = v;
    return NULL;
}

static void *make_memory(int kind, int type, void **out)
{
    (void)kind;
    (void)type;
    return make_object(out);
}

static void keep(void *object)
{
    (void)object; /* texts, and shapes that are the value itself */
}

static void release(void *object)
{
    free(object);
    atomic_fetch_sub(&fake_alive, 1);
}

static void release_value(fake_value *v)
{
    if (v->owns) {
        free(v->values);
    }
    release(v);
}

static void *table[PLACES];

/* Functions are kept as the bytes of their addresses. */
#define PUT(place, function)                                                                       \
    do {                                                                                           \
        void (*address)(void) = (void (*)(void))(function);                                        \
        memcpy(&table[place], &address, sizeof address);                                           \
    } while (0)

static const void *get_api(uint32_t version)
{
    if (version < 1 || getenv("FAKE_ONNXRUNTIME_OLD") != NULL) {
        return NULL;
    }
    PUT(2, message_of);
    PUT(3, create_env);
    PUT(8, create_session);
    PUT(9, run);
    PUT(10, make_object);
    PUT(19, set_nothing);
    PUT(24, set_number);
    PUT(49, hold);
    PUT(50, is_tensor);
    PUT(51, values_of);
    PUT(60, type_of);
    PUT(61, rank_of);
    PUT(62, shape_of);
    PUT(65, describe);
    PUT(69, make_memory);
    PUT(93, keep);
    PUT(95, release);
    PUT(96, release_value);
    PUT(99, keep);
    PUT(100, release);
    PUT(130, set_entry);
    return table;
}

static const char *get_version(void)
{
    return "1.2.3";
}

typedef struct fake_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
} fake_base;

SHOWN const fake_base *OrtGetApiBase(void);

const fake_base *OrtGetApiBase(void)
{
    static const fake_base base = {get_api, get_version};
    return &base;
}
