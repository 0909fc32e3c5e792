/* The library's functions are members of a table that grows at its end alone, so a member has the
 * same place in all versions. Source: onnxruntime_c_api.h of ONNX Runtime 1.21. */
#include "eval/onnx_runtime.h"

#include "base/memory.h"
#include "eval/onnx_library.h"

#include <dlfcn.h>
#include <string.h>

enum { API_VERSION = 12 }; /* of ONNX Runtime 1.12, the oldest that has all of these members */

typedef enum member {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    SET_INTRA_OP_NUM_THREADS = 24,
    CREATE_TENSOR_WITH_DATA = 49,
    CREATE_CPU_MEMORY_INFO = 69,
    RELEASE_ENV = 92,
    RELEASE_STATUS = 93,
    RELEASE_MEMORY_INFO = 94,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_SESSION_OPTIONS = 100
} member;

enum { LOGS_ERRORS = 3, ARENA_ALLOCATOR = 1, USUAL_MEMORY = 0, ELEMENTS_OF_F32 = 1 };

typedef void function(void); /* of any type, to be converted to its own before it is called */

typedef struct api_base {
    function *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} api_base;

struct onnx_runtime {
    function *const *api;
    const char *version; /* of the library */
    void *environment;
    void *memory;
};

struct onnx_session {
    const onnx_runtime *runtime;
    void *session;
};

/* What the library returns: NULL, or an object that holds a message and is released. */
typedef void *outcome;

static grail_status checked(const onnx_runtime *r, outcome o, const char *what)
{
    if (o == NULL) {
        return GRAIL_OK;
    }
    const char *(*message)(const void *) = (const char *(*)(const void *))r->api[GET_ERROR_MESSAGE];
    void (*release)(void *) = (void (*)(void *))r->api[RELEASE_STATUS];
    const grail_status status =
        error_set(GRAIL_ERROR_UNSUPPORTED, "ONNX Runtime %s: %s: %s", r->version, what, message(o));
    release(o);
    return status;
}

static void release(const onnx_runtime *r, member which, void *object)
{
    if (object != NULL) {
        ((void (*)(void *))r->api[which])(object);
    }
}

static grail_status find_api(void *library, onnx_runtime *r)
{
    void *symbol = dlsym(library, "OrtGetApiBase");
    const api_base *(*get_base)(void) = NULL;
    memcpy(&get_base, &symbol, sizeof get_base); /* POSIX lets a function be found as an object */
    const api_base *base = get_base == NULL ? NULL : get_base();
    r->api = base == NULL ? NULL : base->get_api(API_VERSION);
    if (r->api == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the library that was found for ONNX Runtime is none, or older than 1.%d",
                         (int)API_VERSION);
    }
    r->version = base->version();
    return GRAIL_OK;
}

grail_status onnx_runtime_open(onnx_runtime **out)
{
    grail_status status = GRAIL_OK;
    void *library = NULL;
    onnx_runtime *r = NULL;
    TRY(onnx_library_load(&library));
    TRY(memory_new(&r, 1, sizeof *r));
    TRY(find_api(library, r));
    outcome (*create)(int, const char *, void **) =
        (outcome(*)(int, const char *, void **))r->api[CREATE_ENV];
    outcome (*describe)(int, int, void **) =
        (outcome(*)(int, int, void **))r->api[CREATE_CPU_MEMORY_INFO];
    TRY(checked(r, create(LOGS_ERRORS, "grail", &r->environment), "starting"));
    TRY(checked(r, describe(ARENA_ALLOCATOR, USUAL_MEMORY, &r->memory), "naming its memory"));
    *out = r;
    r = NULL;
out:
    onnx_runtime_close(r);
    return status;
}

void onnx_runtime_close(onnx_runtime *r)
{
    if (r != NULL) {
        release(r, RELEASE_MEMORY_INFO, r->memory);
        release(r, RELEASE_ENV, r->environment);
    }
    memory_free(r);
}

const char *onnx_runtime_version(const onnx_runtime *r)
{
    return r->version;
}

grail_status onnx_session_open(const onnx_runtime *r, const char *path, int threads,
                               onnx_session **out)
{
    grail_status status = GRAIL_OK;
    void *options = NULL;
    outcome (*create_options)(void **) = (outcome(*)(void **))r->api[CREATE_SESSION_OPTIONS];
    outcome (*set_threads)(void *, int) = (outcome(*)(void *, int))r->api[SET_INTRA_OP_NUM_THREADS];
    outcome (*create)(const void *, const char *, const void *, void **) =
        (outcome(*)(const void *, const char *, const void *, void **))r->api[CREATE_SESSION];
    TRY(memory_new(out, 1, sizeof **out));
    onnx_session *s = *out;
    s->runtime = r;
    TRY(checked(r, create_options(&options), "describing a session"));
    TRY(checked(r, set_threads(options, threads), "setting its threads"));
    TRY(checked(r, create(r->environment, path, options, &s->session), path));
out:
    if (options != NULL) {
        release(r, RELEASE_SESSION_OPTIONS, options);
    }
    return status;
}

void onnx_session_close(onnx_session *s)
{
    if (s != NULL) {
        release(s->runtime, RELEASE_SESSION, s->session);
    }
    memory_free(s);
}

grail_status onnx_session_run(onnx_session *s, const int64_t shape[4], const float *pixels)
{
    grail_status status = GRAIL_OK;
    static const char *const inputs[] = {"pixels"};
    static const char *const outputs[] = {"logits"};
    const onnx_runtime *r = s->runtime;
    void *x = NULL;
    void *y = NULL;
    outcome (*wrap)(const void *, const void *, size_t, const int64_t *, size_t, int, void **) =
        (outcome(*)(const void *, const void *, size_t, const int64_t *, size_t, int,
                    void **))r->api[CREATE_TENSOR_WITH_DATA];
    outcome (*run)(void *, const void *, const char *const *, void *const *, size_t,
                   const char *const *, size_t, void **) =
        (outcome(*)(void *, const void *, const char *const *, void *const *, size_t,
                    const char *const *, size_t, void **))r->api[RUN];
    const size_t bytes = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof pixels[0];
    TRY(checked(r, wrap(r->memory, pixels, bytes, shape, 4, ELEMENTS_OF_F32, &x), "taking pixels"));
    TRY(checked(r, run(s->session, NULL, inputs, &x, 1, outputs, 1, &y), "running"));
out:
    release(r, RELEASE_VALUE, y);
    release(r, RELEASE_VALUE, x);
    return status;
}
