#ifndef GRAIL_MACHINE_H
#define GRAIL_MACHINE_H

#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library, such as "0.1.0". */
GRAIL_API const char *grail_version(void);

/** Threads of everything that the calling thread does from now on; 0 or less means one. Call it before
 * opening anything. The default is OMP_NUM_THREADS, or the number of cores. */
GRAIL_API void grail_set_threads(int threads);
GRAIL_API int grail_threads(void);

/** The most bytes that the library's objects took at once since grail_memory_peak_begin, or since the
 * program began; of all threads together. Mapped weights and what BLAS, oneDNN and other libraries
 * take are not in it. */
GRAIL_API int64_t grail_memory_peak(void);
GRAIL_API void grail_memory_peak_begin(void);

/** What the machine offers and how fast its matrix products are. Texts are static unless arrays. */
typedef struct grail_machine {
    char cpu[128];
    char features[256];
    int cores, threads;
    const char *blas_name, *blas_version;
    const char *onednn_version; /* of what convolves */
    const char *kernel;         /* kernel set that BLAS uses */
    const char *kernel_choice;  /* who chose it, in words */
    const char *remedy;         /* what to do when the kernel is the wrong one; NULL: it is right */
    int64_t memory_total, memory_available; /* bytes, -1 when unknown */
    double sgemm_gflops, dgemm_gflops;      /* 0 when not measured */
} grail_machine;

/** Examines the machine; with seconds > 0 times products for about that long. */
GRAIL_API grail_status grail_machine_examine(double seconds, grail_machine *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
