/* What a backend consists of: how an instance owns memory, and a function for each operation. */
#ifndef GRAIL_BACKEND_KIND_H
#define GRAIL_BACKEND_KIND_H

#include "backend/operations.h"

#include <grail/machine.h>

#include <stdatomic.h>

/** SLOT_NAME for each row of operation_list.h. */
typedef enum operation_slot {
#define OPERATION(name, ...) SLOT_##name,
#include "backend/operation_list.h"
    SLOT_COUNT
} operation_slot;

enum { OPERATION_MATRICES = 11 };

/** Everything besides matrices that operations take; each uses the fields that its row of
 * operation_list.h sets. Pointers are to host memory. */
typedef struct operation_settings {
    double epsilon, alpha, beta, ceiling;
    activation_kind activation;
    unit_value value;
    grail_dtype type;
    bool lower, largest, counts_padding;
    bool transpose_a, transpose_b;
    int64_t begin, end;
    int64_t units;
    const attention_shape *attention;
    const conv_shape *conv;
    const rope_shape *rope;
    const clamp_attributes *clamp;
    const route_attributes *route;
    const position_shape *positions;
    const struct descent *descent;
    const int64_t *rows, *columns; /* gather, and columns alone of route */
    const int64_t *labels;         /* fold */
    const double *share;
    const int32_t *target;
    entropy_sums *entropy;
    int64_t *index; /* what is found, or the failing pivot */
} operation_settings;

/** One call of an operation. A matrix that is missing has no owner and no memory. */
typedef struct operation {
    operation_slot slot;
    matrix m[OPERATION_MATRICES];
    operation_settings with;
} operation;

/** A kernel: computes an operation that has been checked. */
typedef grail_status (*slot_function)(const operation *o);

/** Weights of products as BF16 in an order of the backend's own. */
typedef struct weight_order {
    /** Bytes that W[rows, columns] then has. */
    grail_status (*bytes)(int64_t rows, int64_t columns, size_t *bytes);
    /** From packed values of BF16 to that order, and back. */
    grail_status (*order)(int64_t rows, int64_t columns, const void *values, void *weight);
    grail_status (*restore)(int64_t rows, int64_t columns, const void *weight, void *values);
} weight_order;

struct backend_kind {
    const char *name;
    const char *precision; /* of products: "f32", "f64", "bf16", "f16", "bf16-gram", "bf16x3" */
    const char *summary;   /* what it is, for help */
    grail_dtype type;      /* of values */
    /** Bound on the relative error of a sum of squares of equal values that matrix_gram forms,
     * beside the f64 rounding of each row; 0 where products are summed in f64 (docs/numerics.md,
     * Constant features). */
    double gram_rounding;
    /** Unit roundoff of values as statistics take them, where that is not the one of their type. */
    double statistics_unit;
    /** NULL where weights of products have the type of values; else products round their other
     * operand to BF16, too. */
    const weight_order *weights;
    /** Whether this precision is faster here than the first one of the name; NULL where it is that.
     * May try it once. */
    bool (*pays)(void);
    int64_t batch_rows; /* rows of values that are worth a call; 0: a few thousand */
    int64_t near_bytes; /* values of more wait for memory and for new pages; 0: any are well */
    /** The kind of which an instance is; NULL: this one. */
    const backend_kind *(*choose)(void);
    int devices;
    bool is_host; /* its memory is the host's, and may be mapped and imported */
    /** Prepares the calling thread for an operation; does nothing when that was done. May be NULL.
     */
    grail_status (*enter)(backend *b);
    /** Memory of at least `bytes`, zeroed when asked; resize may be NULL. What allocate gives is
     * the memory's address, or, with `address`, something that has one. */
    grail_status (*allocate)(backend *b, size_t bytes, bool zeroed, void **out);
    void *(*address)(void *allocation);
    grail_status (*resize)(backend *b, void **memory, size_t bytes);
    void (*release)(backend *b, void *allocation, size_t bytes);
    /** Sets the name, and the memory or why that is not known; NULL: it is the host's. */
    void (*describe)(const backend *b, grail_device *out);
    /** To and from packed host values of the matrix's type. */
    grail_status (*upload)(matrix m, const void *values);
    grail_status (*download)(matrix m, void *values);
    /** The kernels. Those that are NULL here are those of `like`, another precision of the backend;
     * the operation is left out where there is none. */
    slot_function slots[SLOT_COUNT];
    const backend_kind *like;
};

/** What one thread watches on an instance (watch.c). */
typedef struct watch watch;

struct backend {
    const backend_kind *kind;
    int device;
    const char *scratch;    /* see backend_options */
    int threads;            /* 0: those of the calling thread */
    watch *_Atomic watches; /* a list; NULL on the host */
    _Atomic int64_t bytes;
    int64_t free_at_open; /* bytes of its device; -1 where that does not say */
    _Atomic int64_t fallbacks[SLOT_COUNT];
};

/** The kernel of an operation; NULL where it is left out. */
slot_function kind_slot(const backend_kind *kind, operation_slot slot);

/** Gives the calling thread the instance's number of threads and prepares it, until backend_leave,
 * which is due even after a failure. */
grail_status backend_enter(backend *b, int *threads_before) GRAIL_MUST_CHECK;
void backend_leave(const backend *b, int threads_before);

/** What it multiplies and adds, from the shapes: 2 for each x y + z; 0 for what is no product of
 * matrices. */
double operation_work(const operation *o);

/** For backend_close. */
void watches_free(backend *b);

/** Runs an operation on the instance that owns its matrices, after checking them against the
 * operation's description. */
grail_status operation_run(const operation *o) GRAIL_MUST_CHECK;

#define BACKEND(name) extern const backend_kind backend_##name;
#include "backend/backend_list.h"
#undef BACKEND

#endif
