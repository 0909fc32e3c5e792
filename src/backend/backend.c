/* Instances, and the backends that are known. */
#include "backend/kind.h"

#include "base/machine_memory.h"
#include "base/names.h"
#include "base/parallel.h"
#include "base/scratch.h"

#include <math.h>
#include <string.h>

enum { MOST_KINDS = 20 };

#define BACKEND(name) &backend_##name,
static const backend_kind *kinds[MOST_KINDS + 1] = {
#include "backend/backend_list.h"
};
#undef BACKEND

static backend host = {.kind = &backend_cpu};
static backend reference = {.kind = &backend_ref};

backend *backend_host(void)
{
    return &host;
}

backend *backend_reference(void)
{
    return &reference;
}

const backend_kind *backend_kind_at(int i)
{
    return i >= 0 && i < MOST_KINDS ? kinds[i] : NULL;
}

const char *backend_kind_name(const backend_kind *kind)
{
    return kind->name;
}

const char *backend_kind_precision(const backend_kind *kind)
{
    return kind->precision;
}

const char *backend_kind_summary(const backend_kind *kind)
{
    return kind->summary;
}

/* How long a name is without the device that stands behind its last colon; *device is that one,
 * -1 without. */
static size_t kind_name_length(const char *name, int *device)
{
    const char *colon = strrchr(name, ':');
    const size_t digits = colon == NULL ? 0 : strspn(colon + 1, "0123456789");
    *device = -1;
    if (digits == 0 || digits > 4 || colon[1 + digits] != 0) {
        return strlen(name);
    }
    *device = 0;
    for (const char *digit = colon + 1; *digit != 0; digit++) {
        *device = 10 * *device + (*digit - '0');
    }
    return (size_t)(colon - name);
}

static bool has_name(const backend_kind *kind, const char *name)
{
    int device = 0;
    const size_t length = kind_name_length(name, &device);
    return strlen(kind->name) == length && strncmp(kind->name, name, length) == 0;
}

/* The kind of that name and precision; the first one of the name for NULL. */
static const backend_kind *find_kind(const char *name, const char *precision)
{
    int i = 0;
    while (kinds[i] != NULL &&
           (!has_name(kinds[i], name) ||
            (precision != NULL && strcmp(backend_kind_precision(kinds[i]), precision) != 0))) {
        i++;
    }
    return kinds[i];
}

grail_status backend_add(const backend_kind *kind)
{
    int i = 0;
    while (kinds[i] != NULL) {
        i++;
    }
    if (i == MOST_KINDS || find_kind(kind->name, backend_kind_precision(kind)) != NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT, "cannot add the backend '%s': %s", kind->name,
                         i == MOST_KINDS ? "there are too many" : "there is one of this name");
    }
    kinds[i] = kind;
    return GRAIL_OK;
}

static bool is_first_of_name(int i)
{
    return find_kind(kinds[i]->name, NULL) == kinds[i];
}

/* The i-th name, of those that differ. */
static const char *name_at(const void *list, int i)
{
    (void)list;
    int k = 0;
    for (int found = 0; kinds[k] != NULL; k++) {
        if (is_first_of_name(k) && found++ == i) {
            return kinds[k]->name;
        }
    }
    return NULL;
}

/* Devices of PyTorch that are asked for, and why none of their names is a backend. */
static const struct {
    const char *name, *reason;
} refused[] = {
    {"torch:mps", "its memory has no addresses, and a part of a matrix is the address where it "
                  "begins"},
    {"torch:xpu", "its memory has addresses, but PyTorch has _flash_attention_forward for CUDA "
                  "alone, and there was no such device to try the other operators on"},
};

static grail_status unknown_kind(const char *name)
{
    int device = 0;
    const size_t length = kind_name_length(name, &device);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strlen(refused[i].name) == length && strncmp(refused[i].name, name, length) == 0) {
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "the backend cannot be '%s': %s; 'torch:cpu' and 'cpu' compute on the "
                      "processor",
                      name, refused[i].reason);
            return error_about(GRAIL_ERROR_UNSUPPORTED, "backend");
        }
    }
    error_set(GRAIL_ERROR_ARGUMENT, "unknown backend '%s'; expected one of", name);
    error_append_names(name, name_at, NULL);
    return error_about(GRAIL_ERROR_ARGUMENT, "backend");
}

static grail_status unknown_precision(const char *name, const char *precision)
{
    bool first = true;
    error_set(GRAIL_ERROR_ARGUMENT, "the backend '%s' does not compute in '%s'; expected", name,
              precision);
    for (int i = 0; kinds[i] != NULL; i++) {
        if (has_name(kinds[i], name)) {
            error_append("%s '%s'", first ? "" : ",", backend_kind_precision(kinds[i]));
            first = false;
        }
    }
    error_append(" or 'auto'");
    return error_about(GRAIL_ERROR_ARGUMENT, "precision");
}

const char *backend_first_precision(const char *name)
{
    const backend_kind *kind = find_kind(name, NULL);
    return kind == NULL ? NULL : backend_kind_precision(kind);
}

bool backend_prefers(const char *name, const char *precision)
{
    const backend_kind *kind = find_kind(name, precision);
    return kind != NULL && kind->pays != NULL && kind->pays();
}

grail_status backend_enter(backend *b, int *threads_before)
{
    *threads_before = parallel_threads();
    if (b->threads > 0 && b->threads != *threads_before) {
        parallel_set_threads(b->threads);
    }
    return b->kind->enter == NULL ? GRAIL_OK : b->kind->enter(b);
}

void backend_leave(const backend *b, int threads_before)
{
    if (b->threads > 0 && b->threads != threads_before) {
        parallel_set_threads(threads_before);
    }
}

static grail_status check_options(const backend_kind *kind, const backend_options *options)
{
    if (options->device < 0 || options->device >= kind->devices) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the backend '%s' has no device %d; the last one is %d", kind->name,
                         options->device, kind->devices - 1);
    }
    if (options->scratch != NULL && !kind->is_host) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the backend '%s' has its own memory, so scratch files in '%s' are of no "
                         "use to it",
                         kind->name, options->scratch);
    }
    if (options->threads < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "expected 0 or more threads, found %d",
                         options->threads);
    }
    const grail_status status =
        options->scratch == NULL ? GRAIL_OK : scratch_check(options->scratch);
    return status == GRAIL_OK ? GRAIL_OK : error_about(status, "scratch");
}

/* What a name stands for; *device is -1 where it names none. */
static const backend_kind *resolve(const char *name, const char *precision, int *device)
{
    const backend_kind *kind = find_kind(name, precision);
    (void)kind_name_length(name, device);
    return kind == NULL || kind->choose == NULL ? kind : kind->choose();
}

bool backend_is_host(const backend *b)
{
    return b->kind->is_host;
}

int64_t backend_panel(const backend *b, int64_t usual)
{
    return b->kind->batch_rows > usual ? b->kind->batch_rows : usual;
}

int64_t backend_near_bytes(const backend *b)
{
    return b->kind->near_bytes;
}

int64_t backend_batch_rows(const char *name)
{
    enum { USUAL_ROWS = 2048 };
    int device = 0;
    const backend_kind *kind = resolve(name, NULL, &device);
    return kind != NULL && kind->batch_rows > 0 ? kind->batch_rows : USUAL_ROWS;
}

bool backend_is(const backend *b, const char *name, const char *precision)
{
    int device = 0;
    return b->kind == resolve(name, precision, &device) && b->device == (device < 0 ? 0 : device);
}

grail_status backend_open(const char *name, const backend_options *options, backend **out)
{
    grail_status status = GRAIL_OK;
    static const backend_options usual = {0};
    const backend_options *chosen = options == NULL ? &usual : options;
    backend *b = NULL;
    grail_device facts;
    int threads = 0;
    int device = -1;
    const backend_kind *kind = resolve(name, chosen->precision, &device);
    if (kind == NULL) {
        return find_kind(name, NULL) == NULL ? unknown_kind(name)
                                             : unknown_precision(name, chosen->precision);
    }
    backend_options own = *chosen;
    own.device = device >= 0 ? device : own.device;
    TRY(check_options(kind, &own));
    TRY(memory_new(&b, 1, sizeof *b));
    b->kind = kind;
    b->device = own.device;
    b->threads = own.threads;
    b->scratch = own.scratch;
    status = backend_enter(b, &threads);
    backend_leave(b, threads);
    if (status != GRAIL_OK) {
        goto out;
    }
    backend_describe_device(b, &facts);
    b->free_at_open = facts.memory_free;
    *out = b;
    b = NULL;
out:
    backend_close(b);
    return status;
}

void backend_close(backend *b)
{
    if (b != NULL) {
        watches_free(b);
    }
    memory_free(b);
}

const char *backend_name(const backend *b)
{
    return b->kind->name;
}

const char *backend_precision(const backend *b)
{
    return backend_kind_precision(b->kind);
}

grail_dtype backend_type(const backend *b)
{
    return b->kind->type;
}

grail_dtype backend_master_type(const backend *b)
{
    return element_size(b->kind->type) == 2 ? GRAIL_DTYPE_F32 : b->kind->type;
}

grail_dtype backend_weight_type(const backend *b)
{
    return b->kind->weights == NULL ? b->kind->type : GRAIL_DTYPE_BF16;
}

/* Weights make the values of a constant feature different ones. Their rounding is up to four units
 * in a square and a square of the sum, and falls with the root of the rows: four times that is a
 * bound for up to 16 rows, and leaves room where few rows have most of the weight. */
double backend_gram_rounding(const backend *b, int64_t rows)
{
    return b->kind->gram_rounding + 16.0 * b->kind->statistics_unit / sqrt(fmax(1.0, (double)rows));
}

size_t backend_value_size(const backend *b)
{
    return element_size(b->kind->type);
}

void backend_describe_device(const backend *b, grail_device *out)
{
    const machine_memory memory = machine_memory_read("");
    *out = (grail_device){.memory_free = memory.available, .memory_total = memory.total};
    if (b->kind->describe != NULL) {
        b->kind->describe(b, out);
    }
}

int64_t backend_room(const backend *b)
{
    const int64_t left = b->free_at_open - atomic_load(&b->bytes);
    return b->kind->is_host || b->free_at_open < 0 ? machine_memory_read("").available
           : left > 0                              ? left
                                                   : 0;
}

int64_t backend_bytes(const backend *b)
{
    return atomic_load(&b->bytes);
}

slot_function kind_slot(const backend_kind *kind, operation_slot slot)
{
    const backend_kind *k = kind;
    while (k->slots[slot] == NULL && k->like != NULL) {
        k = k->like;
    }
    return k->slots[slot];
}

bool backend_leaves_out(const backend_kind *kind, int slot)
{
    return kind_slot(kind, (operation_slot)slot) == NULL;
}

int64_t backend_fallbacks(const backend *b, int slot)
{
    return atomic_load(&b->fallbacks[slot]);
}
