#ifndef GRAIL_MACHINE_H
#define GRAIL_MACHINE_H

#include <grail/comm.h>
#include <grail/model.h>
#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library, such as "0.1.0". */
GRAIL_API const char *grail_version(void);

/** Sets how many threads the calling thread's work runs on from now on; 0 or less means one. Call
 * it before you open anything. The default is OMP_NUM_THREADS, or the number of cores. */
GRAIL_API void grail_set_threads(int threads);
GRAIL_API int grail_threads(void);

/** Asked on the thread that called the library, about ten times in a second while networks are run
 * or written to files of other formats for it. Return non-zero to cancel: that call is
 * GRAIL_ERROR_CANCELLED. */
typedef int (*grail_stop_observer)(void *user);
/** Whom calls of the calling thread ask from now on, besides the observers that they are given;
 * NULL: nobody. For programs that must be able to stop any call soon, as an interpreter does. */
GRAIL_API void grail_set_stop(grail_stop_observer observer, void *user);

/** The most bytes that the library's objects, of all threads together, took at once since
 * grail_memory_peak_begin, or since the program began. Mapped weights and the memory of BLAS,
 * oneDNN and other libraries are not counted. */
GRAIL_API int64_t grail_memory_peak(void);
GRAIL_API void grail_memory_peak_begin(void);

/** What the machine offers and how fast its matrix products are. Pointers refer to static texts. */
typedef struct grail_machine {
    char cpu[128];
    char features[256];
    int cores, threads;
    const char *blas_name, *blas_version;
    const char *onednn_version; /* of convolutions and products in bf16 */
    const char *kernel;         /* the kernel set that BLAS uses */
    const char *kernel_choice;  /* how it was chosen, in words */
    const char *remedy; /* what to do if the kernel is wrong for this CPU; NULL if it is right */
    int64_t memory_total, memory_available; /* bytes, -1 when unknown */
    double sgemm_gflops, dgemm_gflops;      /* 0 when not measured */
    double bf16_gflops; /* products of bf16 with f32 sums; 0 when not measured or not possible */
    const char *auto_precision; /* which "auto" takes for large networks stored in 16 bits; NULL
                                   when not measured */
    GRAIL_ROOM(8);
} grail_machine;

/** What computes, and in which precision. A NULL grail_compute stands for the processor in f32. */
typedef struct grail_compute {
    const char *backend;    /* a name of grail_backend_describe; NULL: "cpu" */
    const char *precision;  /* of products: "f32", "bf16" with f32 sums, "bf16-gram", which rounds
                               also what Gram matrices are made of, "bf16x3", whose products of f32
                               are three of bf16, "f16", "f64", or "auto": bf16 for networks of 2^25
                               weights and more that are stored in 16 bits, where that is faster on
                               this machine (f16 where most are F16 and a backend has it), bf16x3
                               for those with more than 2^20 in Linears of f32 beside AMX, else the
                               backend's first; NULL: the backend's first. Those of
                               PyTorch keep all values, not products alone, in bf16 or f16 */
    const grail_comm *comm; /* the ranks that share out the work, or NULL; only
                               grail_perplexity_measure and grail_perplexity_of_cut do so far, and
                               the others refuse several */
    GRAIL_ROOM(4);
} grail_compute;

/** A backend in one precision; those of one name follow each other. */
typedef struct grail_backend {
    const char *name;      /* "cpu" */
    const char *summary;   /* what it is, for help */
    const char *precision; /* "f32", "f64", "bf16", "f16", "bf16-gram" or "bf16x3" */
    int operations;        /* how many there are */
    int left_out;          /* how many of them it leaves to the host */
    GRAIL_ROOM(4);
} grail_backend;

/** Describes the i-th backend; 0 beyond the last one, else 1. */
GRAIL_API int grail_backend_describe(int i, grail_backend *out);
/** Name of the k-th operation that the i-th backend leaves to the host; NULL beyond the last. */
GRAIL_API const char *grail_backend_left_out(int i, int k);

/** Whether the i-th backend can compute here: opens and closes it. What is missing is in
 * grail_error_message. A backend whose library is loaded at run time stays loaded. */
GRAIL_API grail_status grail_backend_try(int i) GRAIL_MUST_CHECK;

/** A device of PyTorch. */
typedef struct grail_device {
    char backend[32];                  /* its name, "torch:cpu" or "torch:cuda:0" */
    char name[128];                    /* as its driver calls it; "" where it does not say */
    int64_t memory_free, memory_total; /* bytes, -1 where they are not known */
    char missing[128];                 /* why: the function that is lacking, or its error; "" */
    double bf16_tflops, f32_tflops, f64_tflops; /* products of 10^12 operations in a second; 0 when
                                                   not measured */
    GRAIL_ROOM(8);
} grail_device;

/** Describes the i-th device; 0 beyond the last one, or without PyTorch, else 1. With `measures` it
 * times products for less than half a second in each type. */
GRAIL_API int grail_device_examine(int i, int measures, grail_device *out);

/** What is faster for a network on this machine. */
typedef struct grail_backend_choice {
    const char *backend; /* "torch:cuda" or "cpu", or that of a run which goes on */
    char reason[1024];
    GRAIL_ROOM(2);
} grail_backend_choice;

/** Chooses a backend for a model: "torch:cuda" where PyTorch sees a GPU and the network is large
 * enough for it, that is, where its products are 2^41 on the 65,536 tokens or 128 images that a run
 * usually takes: four seconds for a processor of 1 TFLOP/s, of which a GPU takes half a second to
 * start, and less to get the weights. Else, and for several ranks, "cpu". PyTorch is looked for
 * where GRAIL_TORCH says, and not for smaller networks. `resumed` is the output of an interrupted
 * run that is to go on, whose backend is then kept, or NULL. */
GRAIL_API grail_status grail_backend_choose(const grail_model *model, const grail_comm *comm,
                                            const char *resumed,
                                            grail_backend_choice *out) GRAIL_MUST_CHECK;

/** Examines the machine. With seconds > 0, times matrix products for about that long. */
GRAIL_API grail_status grail_machine_examine(double seconds, grail_machine *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
