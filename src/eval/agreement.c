#include "eval/agreement.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/parallel.h"

#include <stdio.h>
#include <string.h>

/* What gives other bits where it differs. */
static grail_status describe(const grail_model *model, const backend *b, const void *bytes,
                             size_t size, buffer *all)
{
    char tensors[HASH_TEXT_SIZE];
    const int threads = parallel_threads();
    const char *precision = backend_precision(b);
    CHECK(grail_model_digest(model, tensors));
    CHECK(buffer_append(all, &threads, sizeof threads));
    CHECK(buffer_append(all, tensors, sizeof tensors));
    CHECK(buffer_append(all, precision, strlen(precision) + 1));
    return buffer_append(all, bytes, size);
}

grail_status agreement_check(const grail_comm *comm, const grail_model *model, const backend *b,
                             const char *data, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    buffer all = {0};
    char what[80];
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    snprintf(what, sizeof what, "model, precision, number of threads or %s", data);
    buffer_init(&all, SIZE_MAX / 4);
    TRY(comm_settle(comm, describe(model, b, bytes, size, &all)));
    TRY(comm_agree(comm, what, "give all ranks the same command and files", all.bytes, all.size));
out:
    buffer_fini(&all);
    return status;
}
