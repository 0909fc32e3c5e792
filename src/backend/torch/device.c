#include "backend/torch/device.h"

#include "backend/torch/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *says(int code)
{
    return torch.cudaGetErrorString == NULL ? "an error without text"
                                            : torch.cudaGetErrorString(code);
}

grail_status torch_gpu_check(int index)
{
    int count = 0;
    if (torch.cudaGetDeviceCount == NULL) {
        return GRAIL_OK;
    }
    const int code = torch.cudaGetDeviceCount(&count);
    if (code != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "PyTorch sees no GPU here: %s", says(code));
    }
    return index < count ? GRAIL_OK
                         : error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "there is no 'torch:cuda:%d': PyTorch sees %d GPU%s here",
                                     index, count, count == 1 ? "" : "s");
}

void torch_gpu_memory(int index, int64_t *free, int64_t *total, const char **missing)
{
    size_t bytes[2] = {0};
    int before = 0;
    *free = -1;
    *total = -1;
    *missing = torch.cudaGetDevice == NULL    ? "cudaGetDevice is missing"
               : torch.cudaSetDevice == NULL  ? "cudaSetDevice is missing"
               : torch.cudaMemGetInfo == NULL ? "cudaMemGetInfo is missing"
                                              : NULL;
    if (*missing != NULL) {
        return;
    }
    int code = torch.cudaGetDevice(&before);
    code = code == 0 ? torch.cudaSetDevice(index) : code;
    if (code == 0) {
        code = torch.cudaMemGetInfo(&bytes[0], &bytes[1]);
        const int back = torch.cudaSetDevice(before);
        code = code == 0 ? back : code;
    }
    if (code != 0) {
        *missing = says(code);
        return;
    }
    *free = (int64_t)bytes[0];
    *total = (int64_t)bytes[1];
}

/* The driver's own library is loaded by the runtime, for itself alone. */
void torch_gpu_name(int index, char name[128])
{
    int (*find)(int *, int) = NULL;
    int (*tell)(char *, int, int) = NULL;
    int device = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found[] = {driver == NULL ? NULL : dlsym(driver, "cuDeviceGet"),
                     driver == NULL ? NULL : dlsym(driver, "cuDeviceGetName")};
    memcpy(&find, &found[0], sizeof found[0]);
    memcpy(&tell, &found[1], sizeof found[1]);
    name[0] = 0;
    if (find != NULL && tell != NULL &&
        (find(&device, index) != 0 || tell(name, 127, device) != 0)) {
        name[0] = 0;
    }
    name[127] = 0;
    if (driver != NULL) {
        dlclose(driver);
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

static bool has_any(const char *text, const char *const parts[])
{
    int i = 0;
    while (parts[i] != NULL && strstr(text, parts[i]) == NULL) {
        i++;
    }
    return parts[i] != NULL;
}

/* Texts for a GPU, and for the processor. */
bool torch_text_tells_full(const char *text)
{
    static const char *const parts[] = {"out of memory", "not enough memory",
                                        "can't allocate memory", "cannot allocate memory", NULL};
    return has_any(text, parts);
}

/* What the runtime says of errors that stay. A kernel that could not start, such as one with too
 * many threads, leaves the context as it was. */
bool torch_text_tells_loss(const char *text)
{
    static const char *const parts[] = {"device-side assert",         "illegal memory access",
                                        "unspecified launch failure", "illegal instruction",
                                        "misaligned address",         "invalid program counter",
                                        "hardware stack error",       "global/shared address space",
                                        "launch timed out",           "uncorrectable ECC error",
                                        "uncorrectable NVLink error", "context is destroyed",
                                        "a hardware error",           NULL};
    return has_any(text, parts);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the text */
static char loss[GRAIL_ERROR_TEXT_SIZE];
static atomic_bool is_lost;

void torch_gpu_note_loss(const char *message)
{
    pthread_mutex_lock(&mutex);
    if (!atomic_load(&is_lost)) {
        snprintf(loss, sizeof loss, "%s", message);
        atomic_store(&is_lost, true);
    }
    pthread_mutex_unlock(&mutex);
}

const char *torch_gpu_loss(void)
{
    return atomic_load(&is_lost) ? loss : NULL;
}
