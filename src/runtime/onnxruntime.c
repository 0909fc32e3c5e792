#include "runtime/onnxruntime.h"

#include "runtime/region_model.h"
#include "tensor/tensor.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The table that is asked for, which release 1.14 has: all places below are in it. */
enum { API_VERSION = 14 };
static const char oldest_release[] = "1.14";

enum { LOG_FATAL = 4, DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0 };

typedef struct ort_status ort_status;
typedef struct ort_env ort_env;
typedef struct ort_options ort_options;
typedef struct ort_memory ort_memory;
typedef struct ort_shape ort_shape;
typedef struct ort_value ort_value;

/** FUNCTION(place in the table, result, name, parameters), after onnxruntime_c_api.h. Those that
 * give a status give NULL on success. */
#define ORT_FUNCTIONS(FUNCTION)                                                                    \
    FUNCTION(2, const char *, GetErrorMessage, (const ort_status *))                               \
    FUNCTION(3, ort_status *, CreateEnv, (int, const char *, ort_env **))                          \
    FUNCTION(8, ort_status *, CreateSessionFromArray,                                              \
             (ort_env *, const void *, size_t, ort_options *, ort_session **))                     \
    FUNCTION(9, ort_status *, Run,                                                                 \
             (ort_session *, void *, const char *const *, const ort_value *const *, size_t,        \
              const char *const *, size_t, ort_value **))                                          \
    FUNCTION(10, ort_status *, CreateSessionOptions, (ort_options **))                             \
    FUNCTION(19, ort_status *, DisableCpuMemArena, (ort_options *))                                \
    FUNCTION(24, ort_status *, SetIntraOpNumThreads, (ort_options *, int))                         \
    FUNCTION(49, ort_status *, CreateTensorWithDataAsOrtValue,                                     \
             (ort_memory *, void *, size_t, const int64_t *, size_t, int, ort_value **))           \
    FUNCTION(50, ort_status *, IsTensor, (const ort_value *, int *))                               \
    FUNCTION(51, ort_status *, GetTensorMutableData, (ort_value *, void **))                       \
    FUNCTION(60, ort_status *, GetTensorElementType, (const ort_shape *, int *))                   \
    FUNCTION(61, ort_status *, GetDimensionsCount, (const ort_shape *, size_t *))                  \
    FUNCTION(62, ort_status *, GetDimensions, (const ort_shape *, int64_t *, size_t))              \
    FUNCTION(65, ort_status *, GetTensorTypeAndShape, (const ort_value *, ort_shape **))           \
    FUNCTION(69, ort_status *, CreateCpuMemoryInfo, (int, int, ort_memory **))                     \
    FUNCTION(93, void, ReleaseStatus, (ort_status *))                                              \
    FUNCTION(95, void, ReleaseSession, (ort_session *))                                            \
    FUNCTION(96, void, ReleaseValue, (ort_value *))                                                \
    FUNCTION(99, void, ReleaseTensorTypeAndShapeInfo, (ort_shape *))                               \
    FUNCTION(100, void, ReleaseSessionOptions, (ort_options *))                                    \
    FUNCTION(130, ort_status *, AddSessionConfigEntry, (ort_options *, const char *, const char *))

static struct {
#define FUNCTION(place, result, name, parameters) result(*name) parameters;
    ORT_FUNCTIONS(FUNCTION)
#undef FUNCTION
} ort;

typedef struct ort_base {
    const void *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} ort_base;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows; never unloaded */
static bool is_loaded;
static ort_env *environment;
static ort_memory *host_memory;

/* The failure of a function as a status, in its words. */
static grail_status check(ort_status *failure)
{
    if (failure == NULL) {
        return GRAIL_OK;
    }
    error_set(GRAIL_ERROR_UNSUPPORTED, "ONNX Runtime: %s", ort.GetErrorMessage(failure));
    ort.ReleaseStatus(failure);
    return GRAIL_ERROR_UNSUPPORTED;
}

/* -- where it is ------------------------------------------------------------------------------- */

/* The library of a directory, the last one by its name; NULL without. */
static grail_status find_in(const char *directory, char **out)
{
    static const char name[] = "libonnxruntime.so";
    grail_status status = GRAIL_OK;
    char *last = NULL;
    DIR *open = opendir(directory);
    for (struct dirent *e = open == NULL ? NULL : readdir(open); e != NULL; e = readdir(open)) {
        const char *rest = e->d_name + sizeof name - 1;
        const bool is_one =
            strncmp(e->d_name, name, sizeof name - 1) == 0 && (*rest == '\0' || *rest == '.');
        if (is_one && (last == NULL || strcmp(e->d_name, last) > 0)) {
            memory_free(last);
            last = NULL;
            TRY(memory_copy_string(&last, e->d_name));
        }
    }
    if (last != NULL) {
        TRY(path_join(out, directory, last));
    }
out:
    memory_free(last);
    if (open != NULL) {
        closedir(open);
    }
    return status;
}

/* *out is owned: of the file that a user names, or below the directory of the package or of an
 * unpacked archive. */
static grail_status find_library(char **out)
{
    static const char *const below[] = {"", "capi", "lib", "onnxruntime/capi"};
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    const char *named = getenv("GRAIL_ONNXRUNTIME");
    if (named == NULL || named[0] == 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "ONNX Runtime was not found: %s; install the Python package onnxruntime (%s or "
             "newer), or let GRAIL_ONNXRUNTIME name its directory, or the library",
             named == NULL ? "GRAIL_ONNXRUNTIME is not set" : "python3 has no package onnxruntime",
             oldest_release);
    }
    if (file_exists(named) && !file_is_directory(named)) {
        return strchr(named, '/') == NULL ? path_join(out, ".", named)
                                          : memory_copy_string(out, named);
    }
    for (size_t i = 0; *out == NULL && i < sizeof below / sizeof below[0]; i++) {
        TRY(path_join(&directory, named, below[i]));
        TRY(find_in(directory, out));
        memory_free(directory);
        directory = NULL;
    }
    if (*out == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "'%s' has no libonnxruntime.so; GRAIL_ONNXRUNTIME names the directory of the package "
             "onnxruntime, or the library",
             named);
    }
out:
    memory_free(directory);
    return status;
}

/* -- loading ----------------------------------------------------------------------------------- */

static grail_status take_functions(const char *path, void *library)
{
    const ort_base *(*get_base)(void) = NULL;
    void *found = dlsym(library, "OrtGetApiBase");
    if (found == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "'%s' is no ONNX Runtime: it lacks the function OrtGetApiBase", path);
    }
    memcpy(&get_base, &found, sizeof found);
    const ort_base *base = get_base();
    const unsigned char *table = base == NULL ? NULL : base->GetApi(API_VERSION);
    if (table == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the ONNX Runtime of '%s' is release %.40s, expected %s or newer", path,
                         base == NULL ? "?" : base->GetVersionString(), oldest_release);
    }
#define FUNCTION(place, result, name, parameters)                                                  \
    memcpy(&ort.name, table + (place) * sizeof(void *), sizeof(void *));
    ORT_FUNCTIONS(FUNCTION)
#undef FUNCTION
    return GRAIL_OK;
}

static grail_status load(void)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    void *library = NULL;
    TRY(find_library(&path));
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "ONNX Runtime cannot be used: %s", dlerror());
    }
    TRY(take_functions(path, library));
    TRY(check(ort.CreateEnv(LOG_FATAL, "grail", &environment)));
    TRY(check(ort.CreateCpuMemoryInfo(DEVICE_ALLOCATOR, DEFAULT_MEMORY, &host_memory)));
    is_loaded = true;
out:
    memory_free(path);
    return status;
}

grail_status ort_load(void)
{
    pthread_mutex_lock(&mutex);
    const grail_status status = is_loaded ? GRAIL_OK : load();
    pthread_mutex_unlock(&mutex);
    return status;
}

/* -- sessions ---------------------------------------------------------------------------------- */

grail_status ort_session_open(const void *model, size_t size, ort_session **out)
{
    grail_status status = GRAIL_OK;
    ort_options *options = NULL;
    CHECK(ort_load());
    TRY(check(ort.CreateSessionOptions(&options)));
    TRY(check(ort.SetIntraOpNumThreads(options, parallel_threads())));
    TRY(check(ort.DisableCpuMemArena(options)));
    /* Its threads would take the processor from grail's between two runs. */
    TRY(check(ort.AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0")));
    TRY(check(ort.CreateSessionFromArray(environment, model, size, options, out)));
out:
    if (options != NULL) {
        ort.ReleaseSessionOptions(options);
    }
    return status;
}

void ort_session_close(ort_session *s)
{
    if (s != NULL) {
        ort.ReleaseSession(s);
    }
}

static size_t count_of(const ort_tensor *t)
{
    size_t count = 1;
    for (int d = 0; d < t->rank; d++) {
        count *= (size_t)t->shape[d];
    }
    return count;
}

/* *halves, for a tensor of FLOAT16, must live as long as *out. */
static grail_status hold_input(const ort_tensor *t, uint16_t **halves, ort_value **out)
{
    union { /* inputs are only read */
        const void *read;
        void *written;
    } values = {.read = t->values};
    const size_t count = count_of(t);
    if (t->is_half) {
        CHECK(memory_new_unset(halves, count, sizeof **halves));
        CHECK(convert_from_f32(GRAIL_DTYPE_F16, t->values, (int64_t)count, *halves));
        values.written = *halves;
    }
    const size_t bytes = t->is_half ? sizeof **halves : region_element_bytes(t->element);
    return check(ort.CreateTensorWithDataAsOrtValue(host_memory, values.written, count * bytes,
                                                    t->shape, (size_t)t->rank,
                                                    t->is_half ? ONNX_FLOAT16 : t->element, out));
}

/* Values of FLOAT16 as those of FLOAT. */
static grail_status widen(const void *halves, ort_tensor *t)
{
    const size_t count = count_of(t);
    CHECK(memory_new_unset(&t->widened, count, sizeof t->widened[0]));
    CHECK(convert_to_f32(GRAIL_DTYPE_F16, halves, (int64_t)count, t->widened));
    t->values = t->widened;
    t->element = ONNX_FLOAT;
    t->is_half = true;
    return GRAIL_OK;
}

/* Truths as 0 and 1. */
static grail_status widen_truths(const unsigned char *truths, ort_tensor *t)
{
    const size_t count = count_of(t);
    CHECK(memory_new_unset(&t->widened, count, sizeof t->widened[0]));
    for (size_t i = 0; i < count; i++) {
        t->widened[i] = truths[i] != 0 ? 1.0F : 0.0F;
    }
    t->values = t->widened;
    return GRAIL_OK;
}

/* Shape and values of what an output holds. */
static grail_status describe_output(ort_tensor *t)
{
    grail_status status = GRAIL_OK;
    ort_shape *shape = NULL;
    size_t rank = 0;
    int is_tensor = 0;
    void *values = NULL;
    t->element = 0;
    t->rank = -1;
    t->values = NULL;
    t->is_half = false;
    TRY(check(ort.IsTensor(t->held, &is_tensor)));
    if (is_tensor == 0) {
        return GRAIL_OK;
    }
    TRY(check(ort.GetTensorTypeAndShape(t->held, &shape)));
    TRY(check(ort.GetTensorElementType(shape, &t->element)));
    TRY(check(ort.GetDimensionsCount(shape, &rank)));
    if (rank <= ONNX_MAX_RANK) {
        t->rank = (int)rank;
        TRY(check(ort.GetDimensions(shape, t->shape, rank)));
    }
    if (t->rank >= 0 &&
        (t->element == ONNX_FLOAT || t->element == ONNX_FLOAT16 || t->element == ONNX_BOOL)) {
        TRY(check(ort.GetTensorMutableData(t->held, &values)));
    }
    if (t->element == ONNX_FLOAT) {
        t->values = values;
    } else if (t->element == ONNX_FLOAT16 && t->rank >= 0) {
        TRY(widen(values, t));
    } else if (t->element == ONNX_BOOL && t->rank >= 0) {
        TRY(widen_truths(values, t));
    }
out:
    if (shape != NULL) {
        ort.ReleaseTensorTypeAndShapeInfo(shape);
    }
    return status;
}

grail_status ort_session_run(ort_session *s, int input_count, const ort_tensor inputs[],
                             int output_count, ort_tensor outputs[])
{
    grail_status status = GRAIL_OK;
    const size_t all = (size_t)input_count + (size_t)output_count;
    const char **names = NULL;
    ort_value **values = NULL;
    uint16_t **halves = NULL; /* of inputs */
    for (int i = 0; i < output_count; i++) {
        outputs[i].held = NULL;
        outputs[i].widened = NULL;
    }
    TRY(memory_new(&halves, all, sizeof halves[0]));
    TRY(memory_new(&names, all, sizeof names[0]));
    TRY(memory_new(&values, all, sizeof values[0]));
    for (int i = 0; i < input_count; i++) {
        names[i] = inputs[i].name;
        TRY(hold_input(&inputs[i], &halves[i], &values[i]));
    }
    for (int i = 0; i < output_count; i++) {
        names[input_count + i] = outputs[i].name;
    }
    TRY(check(ort.Run(s, NULL, names, (const ort_value *const *)values, (size_t)input_count,
                      names + input_count, (size_t)output_count, values + input_count)));
    for (int i = 0; i < output_count; i++) {
        outputs[i].held = values[input_count + i];
        values[input_count + i] = NULL;
    }
    for (int i = 0; i < output_count; i++) {
        TRY(describe_output(&outputs[i]));
    }
out:
    for (size_t i = 0; values != NULL && i < all; i++) {
        if (values[i] != NULL) {
            ort.ReleaseValue(values[i]);
        }
    }
    for (int i = 0; halves != NULL && i < input_count; i++) {
        memory_free(halves[i]);
    }
    memory_free(halves);
    memory_free(values);
    memory_free(names);
    return status;
}

void ort_tensors_fini(int count, ort_tensor tensors[])
{
    for (int i = 0; i < count; i++) {
        if (tensors[i].held != NULL) {
            ort.ReleaseValue(tensors[i].held);
            tensors[i].held = NULL;
        }
        memory_free(tensors[i].widened);
        tensors[i].widened = NULL;
    }
}
