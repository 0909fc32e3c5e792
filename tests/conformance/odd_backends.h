/* Backends for tests of instances and fallbacks: "recorder" is cpu and notes on which threads it
 * runs; "bare f32" and "bare f64" have no operation of their own; "distant" has none either, is not
 * mapped, has two devices, and its transfers can fail. */
#ifndef GRAIL_TESTS_CONFORMANCE_ODD_BACKENDS_H
#define GRAIL_TESTS_CONFORMANCE_ODD_BACKENDS_H

#include "conformance/conformance.h"

/** What "recorder" saw last, and what it and "distant" are to fail with. */
typedef struct observed {
    int threads_of_enter, threads_of_operation;
    grail_status enter, operation, upload, download;
} observed;

extern observed recorded;

/** Group setup: adds the backends. */
int add_odd_backends(void **state);
/** Teardown of a test that set a failure. */
int forget_failures(void **state);

/** An instance with this number of threads. */
backend *open_with(const char *name, int threads);
matrix zeros_in(backend *b, grail_dtype type, int64_t rows, int64_t columns);

#endif
