/* Products of bf16 tiles by oneDNN, for callers that are threads of a parallel loop. The library
 * makes a kernel for the number of threads that it sees then; these are made for one. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

#include "base/parallel.h"

/* What one thread calls again and again. The operands come first among the arguments. */
typedef struct tile_worker {
    kernel_call product, order;
    dnnl_status_t failed;
} tile_worker;

struct tile_kernel {
    int64_t workers;
    tile_worker *worker;
    size_t bytes; /* of an ordered right factor */
};

static grail_status prepare_workers(int64_t m, int64_t n, int64_t k, layout_view plain,
                                    layout_view ordered, tile_kernel *t)
{
    for (int64_t i = 0; i < t->workers; i++) {
        CHECK(kernel_call_product(m, k, n, false, false, ordered, &t->worker[i].product));
        CHECK(kernel_call_add_wanted(&t->worker[i].product, DNNL_ARG_SRC, dnnl_query_src_md, NULL));
        CHECK(kernel_call_add(&t->worker[i].product, DNNL_ARG_WEIGHTS, ordered, NULL));
        CHECK(kernel_call_add_wanted(&t->worker[i].product, DNNL_ARG_DST, dnnl_query_dst_md, NULL));
        CHECK(kernel_call_prepare(&t->worker[i].product));
        CHECK(onednn_reorder_prepare(plain, NULL, ordered, false, NULL, &t->worker[i].order));
    }
    return GRAIL_OK;
}

static grail_status tile_kernel_fill(int64_t m, int64_t n, int64_t k, bool transposed,
                                     tile_kernel *t)
{
    grail_status status = GRAIL_OK;
    layout plain = {0};
    layout ordered = {0};
    TRY(layout_of_ordered_factor(m, n, k, &ordered));
    TRY(layout_of_right_factor(n, k, transposed ? dnnl_ba : dnnl_ab, &plain));
    t->bytes = dnnl_memory_desc_get_size(layout_view_of(&ordered));
    TRY(prepare_workers(m, n, k, layout_view_of(&plain), layout_view_of(&ordered), t));
out:
    layout_free(&plain);
    layout_free(&ordered);
    return status;
}

grail_status onednn_tiles_new(int64_t m, int64_t n, int64_t k, bool transposed, tile_kernel **out)
{
    const int threads = parallel_threads();
    CHECK(memory_new(out, 1, sizeof **out));
    tile_kernel *t = *out;
    CHECK(memory_new(&t->worker, (size_t)threads, sizeof t->worker[0]));
    t->workers = threads;
    parallel_set_threads(1); /* for which kernels are then made */
    const grail_status status = tile_kernel_fill(m, n, k, transposed, t);
    parallel_set_threads(threads);
    return status;
}

void onednn_tiles_free(tile_kernel *t)
{
    for (int64_t i = 0; t != NULL && i < t->workers; i++) {
        kernel_call_fini(&t->worker[i].product);
        kernel_call_fini(&t->worker[i].order);
    }
    if (t != NULL) {
        memory_free(t->worker);
    }
    memory_free(t);
}

grail_status onednn_tiles_status(const tile_kernel *t)
{
    for (int64_t i = 0; i < t->workers; i++) {
        CHECK(onednn_checked(t->worker[i].failed, "multiplying tiles"));
    }
    return GRAIL_OK;
}

size_t onednn_tile_bytes(const tile_kernel *t)
{
    return t->bytes;
}

static void call_with(const kernel_call *o, size_t count, void *const operands[],
                      dnnl_status_t *failed)
{
    dnnl_status_t code = dnnl_success;
    for (size_t i = 0; i < count && code == dnnl_success; i++) {
        code = dnnl_memory_set_data_handle(o->arguments[i].memory, operands[i]);
    }
    code = code == dnnl_success ? kernel_call_execute(o) : code;
    *failed = *failed == dnnl_success ? code : *failed;
}

void onednn_tile_order(tile_kernel *t, int64_t worker, const void *b, void *ordered)
{
    tile_worker *w = &t->worker[worker];
    call_with(&w->order, 2, (void *[]){onednn_readable(b), ordered}, &w->failed);
}

void onednn_tile_multiply(tile_kernel *t, int64_t worker, const void *a, const void *ordered,
                          float *c)
{
    tile_worker *w = &t->worker[worker];
    call_with(&w->product, 3, (void *[]){onednn_readable(a), onednn_readable(ordered), c},
              &w->failed);
}
