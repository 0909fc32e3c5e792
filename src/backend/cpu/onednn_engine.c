/* The library itself: started once, on the processor. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

#include <pthread.h>
#include <stdio.h>

static pthread_once_t started = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine; /* this and the version are not written after start */
static char version_text[32];

static void start(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version_text, sizeof version_text, "%d.%d.%d", v->major, v->minor, v->patch);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        engine = NULL;
    }
}

grail_status onednn_checked(dnnl_status_t code, const char *step)
{
    if (code == dnnl_success) {
        return GRAIL_OK;
    }
    if (code == dnnl_out_of_memory) {
        return error_set(GRAIL_ERROR_MEMORY, "oneDNN ran out of memory while %s", step);
    }
    return error_set(GRAIL_ERROR_INTERNAL, "oneDNN failed with status %d while %s", (int)code,
                     step);
}

dnnl_engine_t onednn_engine(void)
{
    pthread_once(&started, start);
    return engine;
}

const char *onednn_version(void)
{
    pthread_once(&started, start);
    return version_text;
}

void *onednn_readable(const void *p)
{
    return (void *)(uintptr_t)p;
}
